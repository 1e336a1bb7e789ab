-- acquire: proposes ballot p for the lock.
--
-- KEYS  1 lock  2 fence  3 queue  4 restart marker (only with the guard)
-- ARGV  1 value                                2 p: the ballot in it
--       3 expiry, ms                           4 life of the fence: expiry + R, ms
--       5 longest hold, ms; 0 or none: no guard
--       6 member: 'channel#ticket', '' or none to join no queue
--       7 ticket: place in the queue
-- Reply {code, now us, fence, ttl ms, holder's ballot, rank}, but {1, now} when granted
--       code 1 granted  2 busy  3 stale  4 quarantined
--       ttl: of the lock when busy (-1: it never expires), of the quarantine
--       rank: place in the queue from 0, -1 when not queued

-- lib.lua
-- guard.lua

local value, ballot, px, fence_px = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local hold, member = ARGV[5] or '0', ARGV[6] or ''
local p = tonumber(ballot)
local c, known = fence(KEYS[2])
local now = clock()
local near = p - now <= skew_bound and now - p <= skew_bound
local barred = 0
if hold ~= '0' then
  barred = quarantine(KEYS[4], tonumber(hold), now, tonumber(fence_px))
end

-- The usual case first, with as few calls as will do. An error says that nothing was
-- granted: so of what a user may lack the right to, nothing is left to fail after the
-- first write. pcall: a node that is full has yet to say whether the lock is busy.
local life, set = fence_px, nil
if p > c and near and barred == 0 then
  if known then
    life = longest(KEYS[2], fence_px)
  end
  set = redis.pcall('SET', KEYS[1], value, 'NX', 'PX', px)
end

if not set or set.err then
  -- owner.lua

  local held = redis.call('GET', KEYS[1])
  if held and not owned(held, value) then
    local _, g = split(held)
    local ttl, rank = redis.call('PTTL', KEYS[1]), -1
    if member ~= '' then
      -- pcall: an out-of-memory ZADD must not hide that the lock is busy.
      local joined = redis.pcall('ZADD', KEYS[3], 'NX', ARGV[7], member)
      if type(joined) == 'number' then
        local keep = math.max(ttl, 0) + tonumber(fence_px) - tonumber(px)
        redis.call('PEXPIRE', KEYS[3], longest(KEYS[3], keep))
        rank = redis.call('ZRANK', KEYS[3], member)
      end
    end
    return {2, now, c, ttl, g, rank}
  end
  if set then
    return set -- why the node could not set it
  end
  if barred > 0 then
    return {4, now, c, barred, 0, -1}
  end
  -- A proposal repeated by its own attempt may equal the fence: it set it.
  if not held or p < c or not near then
    return {3, now, c, 0, 0, -1}
  end
  if known then
    life = longest(KEYS[2], fence_px)
  end
  redis.call('SET', KEYS[1], value, 'PX', longest(KEYS[1], px))
end

redis.call('SET', KEYS[2], ballot, 'PX', life)
if member ~= '' then
  redis.pcall('ZREM', KEYS[3], member)
end
return {1, now}
