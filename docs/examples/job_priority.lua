-- A learned policy as the priority of a job at its submission: docs/how-to/policies.md. The score is r**a*n; a=2.
function slurm_job_submit(job_desc, part_list, submit_uid)
   if job_desc.priority == 0 or job_desc.time_limit == slurm.NO_VAL then return slurm.SUCCESS end  -- held, or without a limit
   local n = job_desc.min_cpus == slurm.NO_VAL and 1 or job_desc.min_cpus
   local r = 60 * job_desc.time_limit
   local score = r ^ 2.0 * n
   job_desc.priority = math.floor(2e9 - 5e7 * math.log(math.max(score, 1)))
   return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   return slurm.SUCCESS
end

return slurm.SUCCESS
