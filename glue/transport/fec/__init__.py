"""Forward error correction (FEC, RFC 6363): repair symbols spare a round trip where frames are lost."""

SOURCE_SYMBOLS = 64  # of a block at most: larger blocks need little less repair, and work grows with the square
REPAIR_SYMBOLS = 32  # of a block at most: with 64 source symbols 33 %, twice what 10 % loss needs
LENGTH = 2  # bytes before each symbol that tell its length
BELOW = "glue"  # the one key of a header that a layer below adds
