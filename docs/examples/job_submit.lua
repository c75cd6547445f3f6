--[[
Slurm asks: the predicted runtime of each submitted job, from `queuecast serve`, into the job's AdminComment.

JobSubmitPlugins=lua in slurm.conf, this file beside it as job_submit.lua, and Debian's lua-socket (LuaSocket for Lua 5.1).
slurmctld waits at most TIMEOUT_S for an answer, and asks nothing for REST_S after the service failed. Without an answer the job goes on
exactly as it was submitted. The time limit is never changed, nor TimeMin, by which Slurm would lower it: a prediction that is too
short must not end a job. Read it where it is wanted: scontrol show job, squeue -O admin_comment, sacct -o admincomment.
]]

local ADDRESS, PORT = "127.0.0.1", 8765 -- a number: a name would be looked up, and that may take seconds
local MODEL = "" -- the served model's name, where several are served
local TIMEOUT_S = 0.05 -- of the whole question
local REST_S = 5
local MOST_BYTES = 16384 -- of an answer
local MOST_TEXT = 1000 -- characters of a name, as the service has it

local known, socket = pcall(require, "socket")
local resting_until = 0

local function log(text, ...)
	slurm.log_info("queuecast: " .. text, ...)
end

-- A text as JSON; bytes that are no ASCII become ?, and what is too long for the service is cut.
local function quoted(text)
	local plain = tostring(text):sub(1, MOST_TEXT):gsub('[%c"\\]', function(each) return string.format("\\u%04x", each:byte()) end)
	return '"' .. plain:gsub("[\128-\255]", "?") .. '"'
end

-- A number that was stated: Slurm marks others as the greatest of 16, 32 or 64 bits, or one less.
local function stated(number)
	return type(number) == "number" and number > 0 and number < 4294967294 and number ~= 65534 and number ~= 65535
end

local function processors(job)
	if stated(job.min_cpus) then return job.min_cpus end
	local tasks = stated(job.num_tasks) and job.num_tasks or 1
	return tasks * (stated(job.cpus_per_task) and job.cpus_per_task or 1)
end

-- The requested seconds: the job's limit, else its partition's default or maximum; nil where there is none.
local function requested_s(job, partitions)
	if stated(job.time_limit) then return 60 * job.time_limit end
	for name, each in pairs(partitions or {}) do
		if name == job.partition or (job.partition == nil and each.flag_default == 1) then
			local minutes = stated(each.default_time) and each.default_time or each.max_time
			if stated(minutes) then return 60 * minutes end
		end
	end
	return nil
end

local function question(job, requested)
	local fields = {
		'"user":' .. (job.user_name and quoted(job.user_name) or "null"),
		'"procs":' .. string.format("%d", processors(job)),
		'"requested_s":' .. string.format("%d", requested),
		'"quantiles":[0.5,0.95]',
	}
	local account, name = job.account or job.default_account, job.name
	if account then fields[#fields + 1] = '"group":' .. quoted(account) end
	if name then fields[#fields + 1] = '"executable":' .. quoted(name) end
	if MODEL ~= "" then fields[#fields + 1] = '"model":' .. quoted(MODEL) end
	return "{" .. table.concat(fields, ",") .. "}"
end

-- The body of the answer; or nil, why there is none, and whether the service is to blame. Every wait is for what is left of TIMEOUT_S.
local function asked(body)
	local ends, link = socket.gettime() + TIMEOUT_S, socket.tcp()
	local function left()
		local rest = ends - socket.gettime()
		link:settimeout(rest > 0 and rest or 0, "t")
		return rest > 0
	end
	local function failed(why)
		link:close()
		return nil, why, true
	end
	left()
	local done, why = link:connect(ADDRESS, PORT)
	if not done then return failed(why) end
	local text = string.format(
		"POST /predict HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		ADDRESS, PORT, #body, body
	)
	if not left() then return failed("timeout") end
	done, why = link:send(text)
	if not done then return failed(why) end
	local answer = ""
	repeat
		if not left() then return failed("timeout") end
		local all, ended, part = link:receive(1024)
		answer = answer .. (all or part or "")
		if #answer > MOST_BYTES then return failed("an answer of more than " .. MOST_BYTES .. " bytes") end
		if not all and ended ~= "closed" then return failed(ended) end
	until not all
	link:close()
	if not answer:match("^HTTP/1%.%d 200 ") then
		local first = answer:match("^[^\r\n]*"):gsub("[^\32-\126]", "?")
		return nil, "answered " .. first:sub(1, 60), not first:match("^HTTP/1%.%d 4")
	end
	return answer:match("\r\n\r\n(.*)$")
end

-- What is written into AdminComment; or nil and why nothing is.
local function prediction(job, partitions)
	local requested = requested_s(job, partitions)
	if not requested then return nil, "the job has no time limit" end
	local body, why, failed = asked(question(job, requested))
	if not body then return nil, why, failed end
	local seconds = tonumber(body:match('"predicted_s":%s*(%d+)'))
	if not seconds or seconds < 1 or seconds > requested then return nil, "the answer has no prediction in 1..request", true end
	local told, version = "", body:match('"version":%s*"(%w+)"')
	for level, most in (body:match('"quantiles":%s*(%b{})') or ""):gmatch('"([%d.]+)":%s*(%d+)') do
		told = string.format("%s p%g_s=%d", told, 100 * level, most)
	end
	return string.format("queuecast: predicted_s=%d%s version=%s%s", seconds, told, version or "?",
		body:match('"stale":%s*true') and " stale" or "")
end

function slurm_job_submit(job_desc, part_list, submit_uid)
	if not known then
		log("no LuaSocket: the request stands")
		return slurm.SUCCESS
	end
	local begins = socket.gettime()
	if begins < resting_until then return slurm.SUCCESS end
	local right, comment, why, failed = pcall(prediction, job_desc, part_list)
	if not right then comment, why, failed = nil, comment, true end
	local took_ms = 1000 * (socket.gettime() - begins)
	if comment then
		local before = job_desc.admin_comment
		job_desc.admin_comment = (before and before ~= "") and before .. " " .. comment or comment
		slurm.log_info("%s of %s in %.1f ms", comment, job_desc.user_name or "?", took_ms)
	else
		if failed then resting_until = socket.gettime() + REST_S end
		log("no prediction (%s) after %.1f ms: the request stands", tostring(why), took_ms)
	end
	return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
	return slurm.SUCCESS
end

return slurm.SUCCESS
