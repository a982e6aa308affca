-- Wireshark and tshark decode glue's datagrams with this file (docs/wire-format.md, version 1).
-- Copy it to the folder that Help > About > Folders calls "Personal Lua Plugins", or: tshark -X lua_script:glue.lua
-- The header is one JSON object with a list for each layer; its lists are cut at commas outside strings.

local glue = Proto("glue", "glue")
local PORT = 37320        -- of the default group; unicast is told by its first bytes
local LARGEST_HEADER = 192

local fields = {
    header = ProtoField.string("glue.header", "Header"),
    network = ProtoField.uint32("glue.network", "Network"),
    sender = ProtoField.string("glue.sender", "Sender"),
    incarnation = ProtoField.uint64("glue.incarnation", "Incarnation"),
    counter = ProtoField.uint64("glue.counter", "Counter"),
    kind = ProtoField.string("glue.kind", "Kind"),
    channel = ProtoField.uint64("glue.channel", "Channel"),
    sequence = ProtoField.uint64("glue.sequence", "Sequence"),
    attempt = ProtoField.uint32("glue.attempt", "Attempt"),
    age_ms = ProtoField.uint32("glue.age_ms", "Age (ms)"),
    covered = ProtoField.uint32("glue.parity.frames", "Frames covered"),
    row = ProtoField.uint32("glue.parity.row", "Parity block"),
    mended = ProtoField.uint64("glue.ack.mended", "Frames recovered by FEC"),
    ack_channel = ProtoField.uint64("glue.ack.channel", "Acknowledged channel"),
    ack_next = ProtoField.uint64("glue.ack.next", "Acknowledged below"),
    ack_held_us = ProtoField.uint32("glue.ack.held_us", "Acknowledgement held (us)"),
    ack_window = ProtoField.uint32("glue.ack.window", "Window"),
    message = ProtoField.uint32("glue.fragment.message", "Message"),
    size = ProtoField.uint32("glue.fragment.size", "Fragment size"),
    total = ProtoField.uint32("glue.fragment.total", "Message size"),
    index = ProtoField.uint32("glue.fragment.index", "Fragment"),
    token = ProtoField.uint64("glue.token", "Token"),
    echo = ProtoField.uint64("glue.echo", "Echo"),
    body = ProtoField.bytes("glue.body", "Body"),
    text = ProtoField.string("glue.text", "Text"),
}
glue.fields = fields
local malformed = ProtoExpert.new("glue.malformed", "Malformed header", expert.group.MALFORMED, expert.severity.WARN)
local resent = ProtoExpert.new("glue.resent", "Sent again", expert.group.SEQUENCE, expert.severity.NOTE)
glue.experts = { malformed, resent }

-- Fields of 64 bits, which are set in another way.
local LARGE = {
    incarnation = true, counter = true, channel = true, sequence = true, ack_channel = true, ack_next = true,
    token = true, echo = true, mended = true,
}
-- begin of entries, written by python -m glue.capture.entries
local ENTRIES = {
    glue = {
        [""] = { "version", "network", "sender", "incarnation", "counter" },
    },
    discovery = {
        ["announce"] = { "token", "echo", "epoch", "version", "known", "kind" },
        ["call"] = { "token", "echo", "epoch", "version", "known", "kind" },
        ["answer"] = { "token", "echo", "epoch", "version", "known", "kind" },
        ["probe"] = { "token", "echo", "epoch", "version", "called", "kind" },
        ["want"] = { "token", "echo", "epoch", "version", "kind" },
        ["operations"] = { "token", "echo", "epoch", "version", "kind" },
        ["introduce"] = { "token", "echo", "epoch", "version", "kind" },
        ["examine"] = { "token", "echo", "epoch", "version", "kind" },
        ["goodbye"] = { "token", "echo", "epoch", "version", "kind" },
        ["path"] = { "token", "echo", "epoch", "version", "kind" },
    },
    transport = {
        ["data"] = { "kind", "attempt", "age_ms", "ack_channel", "ack_next", "ack_held_us", "channel", "sequence" },
        ["group"] = { "kind", "attempt", "age_ms", "ack_channel", "ack_next", "ack_held_us", "channel", "sequence" },
        ["open"] = { "kind", "channel" },
        ["skip"] = { "kind", "channel", "sequence" },
        ["ack"] = { "kind", "held_us", "window", "channel", "next" },
        ["mended"] = { "kind", "mended", "held_us", "window", "channel", "next" },
        ["parity"] = { "kind", "age_ms", "channel", "first", "count", "row" },
        ["best"] = { "kind", "age_ms", "sequence" },
        ["wake"] = { "kind", "cycle" },
        ["waited"] = { "kind", "cycle", "waited", "dropped" },
    },
    fragment = {
        [""] = { "message", "size", "total", "index" },
    },
}
-- end of entries

-- How fields are called here, where that is not their own name; an empty name is not shown by itself.
local SHOWN = {
    glue = { version = "", sender = "" },
    transport = { kind = "" },
    ack = { held_us = "ack_held_us", window = "ack_window", channel = "ack_channel", next = "ack_next" },
    mended = { held_us = "ack_held_us", window = "ack_window", channel = "ack_channel", next = "ack_next" },
    parity = { first = "sequence", count = "covered" },
}

-- The elements of a layer's list as texts, strings without their quotes; nil if the header has none.
local function entry(header, key)
    local list = header:match('"' .. key .. '"%s*:%s*%[([^%]]*)%]')
    if not list then return nil end
    local elements = {}
    for element in (list .. ","):gmatch("%s*(.-)%s*,") do
        elements[#elements + 1] = element:match('^"(.*)"$') or element
    end
    return elements
end

-- Add the fields of a layer's list; `kind` is "" for a layer whose entries have none.
local function add(tree, range, elements, layer, kind)
    local names = (ENTRIES[layer] or {})[kind] or {}
    local last = names[#names] == "kind" -- fields before the kind may be left out
    for place, name in ipairs(names) do
        local text = elements[place]
        if last and place >= #elements then break end
        name = (SHOWN[kind] or {})[name] or (SHOWN[layer] or {})[name] or name
        local field = fields[name]
        if field and text and text:match("^%d+$") then
            local number = tonumber(text) -- exact: below 2^53
            if LARGE[name] then
                tree:add(field, range, UInt64.new(number % 2 ^ 32, math.floor(number / 2 ^ 32)))
            elseif number < 2 ^ 32 then
                tree:add(field, range, number)
            end
        end
    end
end

local function describe(tree, range, header, pinfo)
    local kind = "frame"
    local transport, discovery, fragment = entry(header, "transport"), entry(header, "discovery"), entry(header, "fragment")
    if transport then
        kind = transport[1]
        add(tree, range, transport, "transport", kind)
        if (kind == "data" or kind == "group") and transport[2] ~= "0" then
            tree:add_proto_expert_info(resent, "Sent again: attempt " .. tostring(transport[2]))
        end
    elseif discovery then
        kind = discovery[#discovery]
        add(tree, range, discovery, "discovery", kind)
    end
    tree:add(fields.kind, range, kind)
    if fragment then add(tree, range, fragment, "fragment", "") end
    return kind
end

function glue.dissector(buffer, pinfo, root)
    local head = buffer(0, math.min(buffer:len(), LARGEST_HEADER)):raw()
    local stop = head:find("\n", 1, true)
    pinfo.cols.protocol = "glue"
    local tree = root:add(glue, buffer())
    if not stop or head:sub(1, 1) ~= "{" then
        tree:add_proto_expert_info(malformed)
        return buffer:len()
    end
    local range, header = buffer(0, stop), head:sub(1, stop - 1)
    local own = entry(header, "glue")
    tree:add(fields.header, range, header)
    if not own or not own[3] then
        tree:add_proto_expert_info(malformed)
        return buffer:len()
    end
    add(tree, range, own, "glue", "")
    tree:add(fields.sender, range, own[3])
    local kind = describe(tree, range, header, pinfo)
    pinfo.cols.info = string.format("%s of %s #%s", kind, own[3], tostring(own[5]))
    if buffer:len() > stop then
        local body = buffer(stop)
        tree:add(fields.body, body)
        local line = body:raw():match("^[%[{][^\n]*")
        if line then tree:add(fields.text, body(0, #line), line) end
    end
    return buffer:len()
end

DissectorTable.get("udp.port"):add(PORT, glue)

glue:register_heuristic("udp", function(buffer, pinfo, root)
    if buffer:len() < 8 or buffer(0, 8):raw() ~= '{"glue":' then return false end
    glue.dissector(buffer, pinfo, root)
    return true
end)
