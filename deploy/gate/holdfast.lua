-- Forward auth: sends each request to Holdfast for a verdict, and passes its identity headers to the application.

-- The section "listen holdfast" leads to the gate.
local GATE = { url = "http://holdfast/verify/haproxy", dst = "abns@holdfast" }
-- What the gate needs of the request. Nothing else of it is sent.
local SENT = { "authorization", "dpop" }
-- What the client gets of a refusal.
local PASSED_ON = { "www-authenticate", "dpop-nonce", "retry-after", "content-type", "cache-control" }

local function values(lines)
  local list = {}
  if lines then
    for index = 0, 100 do
      if lines[index] ~= nil then list[#list + 1] = lines[index] end
    end
  end
  return list
end

-- An application may see no difference between X_Auth_Subject and X-Auth-Subject.
local function is_identity(name)
  return name:lower():gsub("[^%w]", "-"):find("^x%-auth%-") ~= nil
end

local function refuse(txn, status, headers, body)
  local reply = txn:reply({ status = status })
  for _, header in ipairs(headers) do reply:add_header(header[1], header[2]) end
  reply:set_body(body)
  txn:done(reply)
end

core.register_action("holdfast", { "http-req" }, function(txn)
  local received = txn.http:req_get_headers()
  local hosts = values(received["host"])
  local scheme = txn.f:ssl_fc() == 1 and "https" or "http"
  local question = {
    ["x-original-method"] = { txn.f:method() },
    ["x-original-url"] = { scheme .. "://" .. (hosts[1] or "") .. txn.f:pathq() },
    ["x-request-id"] = values(received["x-request-id"]),
    ["x-forwarded-for"] = { txn.f:src() }
  }
  for _, name in ipairs(SENT) do
    local lines = values(received[name])
    if #lines > 0 then question[name] = lines end
  end
  local answer = core.httpclient():get({ url = GATE.url, dst = GATE.dst, headers = question, timeout = 20000 })

  if not answer or answer.status ~= 200 then
    local status = answer and answer.status or 0
    local headers = {}
    if status < 400 then
      return refuse(txn, 503, { { "retry-after", "1" } }, "")
    end
    for _, name in ipairs(PASSED_ON) do
      for _, value in ipairs(values(answer.headers[name])) do headers[#headers + 1] = { name, value } end
    end
    return refuse(txn, status, headers, answer.body or "")
  end

  for name in pairs(received) do
    if is_identity(name) then txn.http:req_del_header(name) end
  end
  -- While OBSERVE is set, take this line away: the application may still judge by itself.
  for _, name in ipairs(SENT) do txn.http:req_del_header(name) end
  for name, lines in pairs(answer.headers) do
    if is_identity(name) then txn.http:req_set_header(name, values(lines)[1] or "") end
  end
  local nonce = values(answer.headers["dpop-nonce"])[1]
  if nonce then txn:set_var("txn.holdfast_nonce", nonce) end
  txn:set_var("txn.holdfast_passed", true)
end, 0)
