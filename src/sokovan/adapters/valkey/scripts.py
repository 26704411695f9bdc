"""Lua scripts for operations that must be atomic on the server."""

from __future__ import annotations

from sokovan.adapters.valkey.connection import Script

# KEYS  1 the stream, 2 the group's own hash: `epoch`, and `read`, the number of entries ever handed to the group
# ARGV  1 group, 2 consumer, 3 limit (0: only join), 4 idle time in ms before redelivery, 5 cursor of XAUTOCLAIM,
#       6 cursor in this consumer's own unacknowledged entries ('' to skip them), 7 start of a missing group, '$' or
#       '0', 8 the id of a new epoch
#
# The n-th entry ever added is trimmed if n <= entries-added - length. If the group has read fewer entries than that,
# some were trimmed unread. That, a recreated group and a missing hash begin a new epoch; consumers that know the old
# epoch report a loss.
RECEIVE = Script("""
local stream, state = KEYS[1], KEYS[2]
local group, consumer, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])

local function named(flat)
    local fields = {}
    for at = 1, #flat, 2 do fields[flat[at]] = flat[at + 1] end
    return fields
end

local exists = redis.call('EXISTS', stream) == 1
local has_group = false
if exists then
    for _, flat in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
        has_group = has_group or named(flat)['name'] == group
    end
end
if not has_group then
    redis.call('XGROUP', 'CREATE', stream, group, ARGV[7], 'MKSTREAM')
end

local info = named(redis.call('XINFO', 'STREAM', stream))
local added, gone = info['entries-added'], info['entries-added'] - info['length']
local read = tonumber(redis.call('HGET', state, 'read') or '')
local lost = 0
if not has_group and ARGV[7] == '$' then
    read = added
    redis.call('HSET', state, 'epoch', ARGV[8])
elseif not has_group or not read or read < gone or read > added then
    if has_group and (not read or read > added) then
        redis.call('XGROUP', 'SETID', stream, group, '0')
    end
    read = gone
    redis.call('HSET', state, 'epoch', ARGV[8])
    lost = 1
end

local again, own, new, cursor = {}, {}, {}, '0-0'
if limit > 0 then
    local claimed = redis.call('XAUTOCLAIM', stream, group, consumer, ARGV[4], ARGV[5], 'COUNT', limit)
    cursor, again = claimed[1], claimed[2]
    if claimed[3] and #claimed[3] > 0 then lost = 1 end
    local function entries(from, room)
        if room < 1 then return {} end
        local reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', room, 'STREAMS', stream, from)
        return reply and reply[1][2] or {}
    end
    if ARGV[6] ~= '' then own = entries(ARGV[6], limit - #again) end
    new = entries('>', limit - #again - #own)
else
    for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
        local other = named(flat)
        if other['pending'] == 0 and other['idle'] > 3600000 and other['name'] ~= consumer then
            redis.call('XGROUP', 'DELCONSUMER', stream, group, other['name'])
        end
    end
end
redis.call('HSET', state, 'read', read + #new)
return {redis.call('HGET', state, 'epoch'), lost, again, own, new, cursor, info['last-generated-id'], added}
""")

# KEYS 1 the stream; ARGV 1 group, 2 consumer. Sets the idle time of the consumer's pending entries to a day, so that
# the next reader claims them; a consumer without pending entries is removed.
RELEASE = Script("""
local from, held = '-', 0
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
repeat
    local page = redis.pcall('XPENDING', KEYS[1], ARGV[1], from, '+', 1000, ARGV[2])
    if page.err then return 0 end
    for _, entry in ipairs(page) do
        redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, entry[1], 'IDLE', 86400000, 'JUSTID')
        from = '(' .. entry[1]
    end
    held = held + #page
until #page < 1000
if held == 0 then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2]) end
return held
""")

# KEYS 1 the agent's key; ARGV 1 the moment (fixed-width digits, so that texts compare as numbers), 2 the state, 3 its
# time to live in ms.
KEEP_LATEST = Script("""
local known = redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1)
if known ~= '' and known > ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3])
return 1
""")
