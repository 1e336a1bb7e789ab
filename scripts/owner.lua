-- Splits a lock value 'generated.nonce.ballot' into 'generated.nonce.' and the
-- ballot. Any other text is a foreign holder: no identity, ballot 0.
local function split(value)
  local id, ballot = string.match(value, '^(.*%.)(%d+)$')
  if not id or #ballot > 16 then
    return nil, 0
  end
  return id, tonumber(ballot)
end

-- An identity that does not end in a dot is a whole value from elsewhere, held
-- without a ballot in it.
local function owned(value, id)
  return value == id or split(value) == id
end
