-- touch: keeps a grant alive; behind Extend and renewal.
--
-- KEYS  1 lock  2 fence  3 tombstone of a broken grant
--       4 restart marker (only with the guard)
-- ARGV  1 value      2 the grant's ballot, which is in it
--       3 q: a fresh ballot, above all that were sent for the grant
--       4 V: end of validity by this node's clock, us; 0 when not known
--       5 expiry, ms      6 life of the fence: expiry + R, ms
--       7 longest hold, ms; none: no guard
-- Reply {code, now us, fence, ttl ms, holder's ballot, quarantine ms}
--       code 1 held  2 restored  3 topped up  4 missing  5 someone else's
--       ttl: of the lock as it was before when held, as it is now otherwise
--       held and restored are votes; topped up is none (the node forgot), nor is
--       any while the quarantine lasts

-- lib.lua
-- owner.lua
-- guard.lua

local value, q, px, fence_px = ARGV[1], tonumber(ARGV[3]), ARGV[5], ARGV[6]
local held = redis.call('GET', KEYS[1])
local now = clock()
local c, known = fence(KEYS[2])

if held and held ~= value and not owned(held, value) then
  local _, g = split(held)
  return {5, now, c, redis.call('PTTL', KEYS[1]), g, 0}
end

-- Broken: by name, or for being no younger than a broken grant.
local function buried(stone)
  return stone and (stone == '=' .. (split(value) or value) or (tonumber(stone) or 0) >= tonumber(ARGV[2]))
end

local code
local ttl = tonumber(px)
if held then
  ttl = redis.call('PTTL', KEYS[1])
  if ARGV[3] ~= '0' or ttl >= 0 then -- a look takes no key that never expires away
    if ttl > tonumber(px) then
      px, fence_px = ttl, ttl + retention
    end
    -- PEXPIRE first: it passes on a full node, and opens the way for SET.
    redis.call('PEXPIRE', KEYS[1], px)
  end
  if redis.call('PEXPIRE', KEYS[2], longest(KEYS[2], fence_px)) == 0 then
    redis.call('SET', KEYS[2], ARGV[2], 'PX', fence_px)
    c = tonumber(ARGV[2])
  end
  code = 1
elseif q > c and math.abs(q - now) <= skew_bound and now < tonumber(ARGV[4])
    and not buried(redis.call('GET', KEYS[3])) then
  redis.call('SET', KEYS[1], value, 'PX', px)
  redis.call('SET', KEYS[2], ARGV[3], 'PX', longest(KEYS[2], fence_px))
  c = q
  -- Where the fence is gone too the node forgot, and may have forgotten others.
  code = known and 2 or 3
else
  return {4, now, c, 0, 0, 0}
end
local barred = 0
if ARGV[7] then
  barred = quarantine(KEYS[4], tonumber(ARGV[7]), now, tonumber(fence_px))
end
return {code, now, c, ttl, tonumber(ARGV[2]), barred}
