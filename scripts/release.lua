-- release: gives a grant back, or takes back an attempt that did not win.
--
-- KEYS  1 lock  2 fence  3 queue
-- ARGV  1 value, with h for its ballot
--       2 h: the highest ballot ever sent for it, extends included
--       3 none: call the next waiter  '0': a holder is known who will call it
--         '2': and tell the one behind it that it is the first now
-- Reply {code, now us, fence, ttl ms, holder's ballot, woken}, or {1} where nobody waits
--       code 1 released  2 missing  3 someone else's
--       now, fence: 0 when not looked at
--       ttl, holder's ballot: of the other holder
--       woken: 1 when a waiter was told

local held = redis.call('GET', KEYS[1])
local usual = held == ARGV[1] and string.sub(held, -#ARGV[2]) == ARGV[2]
local popped
if usual then
  -- The fence is at least the ballot it was granted with, and that is h: nothing was
  -- sent for it since. (A value from elsewhere has no ballot to tell by.)
  redis.call('DEL', KEYS[1])
  popped = ARGV[3] ~= '0' and redis.call('ZPOPMIN', KEYS[3])
  if not popped or not popped[1] then
    return {1}
  end
end

-- lib.lua
-- owner.lua
-- queue.lua

if usual then
  return {1, 0, 0, 0, 0, hand_over(popped, KEYS[3], KEYS[1], ARGV[3] == '2')}
end
local code, ttl, g = 2, 0, 0
if held then
  if owned(held, ARGV[1]) then
    -- First of all writes: DEL passes when the node is out of memory, and after
    -- a first write the node lets the script finish.
    redis.call('DEL', KEYS[1])
    code = 1
  else
    code, ttl = 3, redis.call('PTTL', KEYS[1])
    local _, ballot = split(held)
    g = ballot
  end
end

-- Raising the fence is what refuses a request of this grant that is still on its
-- way. The bound shuts out broken clocks only: no client sends a ballot above
-- its estimate of node time plus S.
local c, known = fence(KEYS[2])
local h, now = tonumber(ARGV[2]), 0
if c < h then
  now = clock()
  if h <= now + 2 * skew_bound then
    local px = retention
    if known then
      px = longest(KEYS[2], px)
    end
    -- pcall: nothing was deleted on a full node; the reply shows the low fence.
    local set = redis.pcall('SET', KEYS[2], ARGV[2], 'PX', px)
    if not set.err then
      c = h
    end
  end
end

local woken = 0
if code ~= 3 and ARGV[3] ~= '0' then
  woken = hand_over(redis.call('ZPOPMIN', KEYS[3]), KEYS[3], KEYS[1], ARGV[3] == '2')
end
return {code, now, c, ttl, g, woken}
