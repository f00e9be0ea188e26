#!/bin/bash
# {{=name}}: {{=tasks}} tasks on {{=nodes}} nodes. Made by `strata render slurm`; start it with `sbatch FILE`.
#
# Exit code 42 of a task says that it was asked to stop and has saved: the job is queued again and continues from there, as
# it does after a node has failed. Other failures start all tasks again, {{=restarts}} times. Before its time is over its tasks get SIGTERM, {{=grace}} s ahead.
#SBATCH --job-name={{=name}}
#SBATCH --nodes={{=nodes}}
#SBATCH --ntasks={{=tasks}}
#SBATCH --ntasks-per-node={{=tasks_per_node}}
{{#cpus_per_task}}
#SBATCH --cpus-per-task={{=cpus_per_task}}
{{/cpus_per_task}}
{{#memory}}
#SBATCH --mem={{=memory}}
{{/memory}}
{{#gpus_per_node}}
#SBATCH --gres=gpu:{{=gpus_per_node}}
{{/gpus_per_node}}
{{#time}}
#SBATCH --time={{=time}}
{{/time}}
{{#partition}}
#SBATCH --partition={{=partition}}
{{/partition}}
#SBATCH --signal=TERM@{{=grace}}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={{=name}}-%j.log
set -uo pipefail

program=({{command}})
{{#environment}}
export {{=variable}}={{value}}
{{/environment}}
{{#tls}}
export STRATA_TLS_DIR={{tls}} # of `strata certs DIR --tasks {{=task_list}}`, which every node sees
{{/tls}}

# Rank r of the step is task ${indices[r]} of ${jobs[r]}. Ranks fill the nodes one after the other.
jobs=({{jobs_of_ranks}})
indices=({{indices_of_ranks}})
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
declare -A addresses=()
for rank in "${!jobs[@]}"; do
  job=${jobs[rank]}
  [ "$job" = evaluator ] && continue # no task waits for it
  address=${nodes[rank / {{=tasks_per_node}}]}:$(({{=port}} + rank % {{=tasks_per_node}}))
  addresses[$job]=${addresses[$job]:+${addresses[$job]}, }\"$address\"
done
cluster=
for job in "${!addresses[@]}"; do cluster=${cluster:+$cluster, }\"$job\":\ [${addresses[$job]}]; done
export TRAIN_CLUSTER="{$cluster}" TRAIN_JOBS="${jobs[*]}" TRAIN_INDICES="${indices[*]}" TRAIN_NODES="${nodes[*]}"
{{#gpus_per_node}}
export TRAIN_GPUS="{{=gpus_of_ranks}}"
{{/gpus_per_node}}

# Of this run alone. srun hands the environment on, and other users cannot read it.
if [ -z "${STRATA_JOB_SECRET:-}${STRATA_JOB_SECRET_FILE:-}" ]; then
  STRATA_JOB_SECRET=$(od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n')
  export STRATA_JOB_SECRET
fi

# What a task does before it becomes the program.
# shellcheck disable=SC2016
become='
rank=$SLURM_PROCID
read -ra jobs <<<"$TRAIN_JOBS"; read -ra indices <<<"$TRAIN_INDICES"; read -ra nodes <<<"$TRAIN_NODES"
node=${nodes[rank / {{=tasks_per_node}}]}
if [ "$SLURMD_NODENAME" != "$node" ]; then
  echo "rank $rank is on $SLURMD_NODENAME; expected $node: srun --distribution=block" >&2
  exit 2
fi
export TF_CONFIG="{\"cluster\": $TRAIN_CLUSTER, \"task\": {\"type\": \"${jobs[rank]}\", \"index\": ${indices[rank]}}}"
{{#gpus_per_node}}
IFS=, read -ra shares <<<"$TRAIN_GPUS"
IFS=, read -ra seen <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $(({{=gpus_per_node}} - 1)))}"
CUDA_VISIBLE_DEVICES=
if [ "${shares[rank]}" != none ]; then
  CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${seen[*]:shares[rank]:{{=gpus_per_task}}}")
fi
export CUDA_VISIBLE_DEVICES
{{/gpus_per_node}}
exec "$@"'

for ((attempt = 0; ; ++attempt)); do
  srun --ntasks={{=tasks}} --ntasks-per-node={{=tasks_per_node}} --distribution=block --kill-on-bad-exit=1 \
    --export=ALL bash -c "$become" "{{=name}}" "${program[@]}"
  status=$?
  [ "$status" -eq 0 ] && exit 0
  if [ "$status" -eq 42 ]; then
    echo "{{=name}}: was asked to stop and has saved; queued again" >&2
    scontrol requeue "$SLURM_JOB_ID" && exit 0
    exit 42
  fi
  # The tasks of the other nodes notice a node's end long before SLURM does.
  if ! timeout 60 srun --nodes={{=nodes}} --ntasks={{=nodes}} --ntasks-per-node=1 true; then
    echo "{{=name}}: a node does not answer; queued again" >&2
    scontrol requeue "$SLURM_JOB_ID" && exit 0
    exit "$status"
  fi
  echo "{{=name}}: ended with $status; start $((attempt + 1)) of $(({{=restarts}} + 1))" >&2
  [ "$attempt" -lt {{=restarts}} ] || exit "$status"
done
