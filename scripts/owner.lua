-- Splits a lock value 'generated.nonce.ballot' into 'generated.nonce.' and the
-- ballot. Any other text is a foreign holder: no identity, ballot 0.
local function split(value)
  local id, ballot = string.match(value, '^(.*%.)(%d+)$')
  if not id or #ballot > 16 then
    return nil, 0
  end
  return id, tonumber(ballot)
end

-- Whether what a node holds has the identity of a value, whatever the ballots. One that
-- does not split is a whole value from elsewhere, held as it is.
local function owned(held, value)
  local id = split(value) or value
  return held == id or split(held) == id
end
