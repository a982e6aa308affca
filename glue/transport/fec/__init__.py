"""Forward error correction (FEC, RFC 6363): repair symbols spare a round trip where frames are lost."""
