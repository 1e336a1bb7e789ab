-- Shared by the scripts: where a line of one is only the name of a file, scripts.go puts
-- that file. Each run makes a script's functions anew, so those that the usual case does
-- without stand behind it.
--
-- Ballots and times are microseconds since 1970 and stay below 2^53, where Lua
-- numbers are exact. A ballot is written only from the string that came in:
-- tostring() would turn it into 1.7e+15.

-- S, how far a ballot may lie from this clock, in us, and R, for how long a fence is
-- kept beyond the lock, in ms: those of ballot.go.
local skew_bound, retention = 5000000, 20000

-- The node's own clock.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- The highest ballot this node has seen for the name, 0 if none.
local function fence(key)
  local text = redis.call('GET', key)
  if not text then
    return 0, false
  end
  local c = tonumber(text)
  if string.find(text, '%D') or #text > 16 then
    error('the fence key does not hold a ballot: ' .. key)
  end
  return c, true
end

-- No script ever shortens the life of a lock or fence: a late duplicate would
-- otherwise end a lock its owner still counts on, or let a late acquire in. px is
-- given back as it is: to make a text of a number costs more than a command.
local function longest(key, px)
  local ttl = redis.call('PTTL', key)
  if ttl > tonumber(px) then
    return ttl
  end
  return px
end
