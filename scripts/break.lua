-- break: takes the lock from the holder that was observed, and from no other.
--
-- KEYS  1 lock  2 fence  3 queue  4 tombstone
-- ARGV  1 the value observed     2 its ballot, 0: it has none
--       3 how long it may live on elsewhere, ms
-- Reply {code, now us, fence}
--       code 1 broken  2 missing  3 someone else's
--
-- The tombstone keeps the broken grant's own renewals from bringing it back for
-- as long as its owner could believe in it. It cannot be done with the fence: a
-- renewal's ballot follows the clock and would soon be above it.

-- lib.lua
-- queue.lua

local held = redis.call('GET', KEYS[1])
local c, known = fence(KEYS[2])
local now = clock()
if held and held ~= ARGV[1] then
  return {3, now, c}
end
local code, px = 2, ARGV[3]
if held then
  px = longest(KEYS[1], px)
  redis.call('DEL', KEYS[1])
  code = 1
end
-- A later break must not free the holder of an earlier one: tokens rise, so the
-- highest ballot broken stands for all below. A value without one stands for itself,
-- behind a sign that no number has: it may look like a ballot.
local stone = ARGV[2]
if stone == '0' then
  -- owner.lua

  stone = '=' .. (split(ARGV[1]) or ARGV[1])
end
local old = redis.call('GET', KEYS[4])
if old and (tonumber(old) or 0) > (tonumber(stone) or 0) then
  stone = old
end
redis.call('SET', KEYS[4], stone, 'PX', longest(KEYS[4], px))
-- The acquire that the holder won with is refused should it arrive only now, also
-- on a node that had never seen it.
local g = tonumber(ARGV[2])
if c < g and g <= now + 2 * skew_bound then
  local keep = retention
  if known then
    keep = longest(KEYS[2], keep)
  end
  redis.call('SET', KEYS[2], ARGV[2], 'PX', keep)
  c = g
end
hand_over(redis.call('ZPOPMIN', KEYS[3]), KEYS[3], KEYS[1], true)
return {code, now, c}
