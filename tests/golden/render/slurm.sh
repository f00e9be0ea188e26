#!/bin/bash
# train: 5 tasks on 3 nodes. Made by `strata render slurm`; start it with `sbatch FILE`.
#
# Exit code 42 of a task says that it was asked to stop and has saved: the job is queued again and continues from there, as
# it does after a node has failed. Other failures start all tasks again, 2 times. Before its time is over its tasks get SIGTERM, 120 s ahead.
#SBATCH --job-name=train
#SBATCH --nodes=3
#SBATCH --ntasks=5
#SBATCH --ntasks-per-node=2
#SBATCH --gres=gpu:4
#SBATCH --time=4:00:00
#SBATCH --partition=gpu
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=train-%j.log
set -uo pipefail

program=(./train --epochs 10)
export A='it'\''s $HOME'

# Rank r of the step is task ${indices[r]} of ${jobs[r]}. Ranks fill the nodes one after the other.
jobs=(worker worker worker ps evaluator)
indices=(0 1 2 0 0)
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
declare -A addresses=()
for rank in "${!jobs[@]}"; do
  job=${jobs[rank]}
  [ "$job" = evaluator ] && continue # no task waits for it
  address=${nodes[rank / 2]}:$((8888 + rank % 2))
  addresses[$job]=${addresses[$job]:+${addresses[$job]}, }\"$address\"
done
cluster=
for job in "${!addresses[@]}"; do cluster=${cluster:+$cluster, }\"$job\":\ [${addresses[$job]}]; done
export TRAIN_CLUSTER="{$cluster}" TRAIN_JOBS="${jobs[*]}" TRAIN_INDICES="${indices[*]}" TRAIN_NODES="${nodes[*]}"
export TRAIN_GPUS="0,2,0,none,0"

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
node=${nodes[rank / 2]}
if [ "$SLURMD_NODENAME" != "$node" ]; then
  echo "rank $rank is on $SLURMD_NODENAME; expected $node: srun --distribution=block" >&2
  exit 2
fi
export TF_CONFIG="{\"cluster\": $TRAIN_CLUSTER, \"task\": {\"type\": \"${jobs[rank]}\", \"index\": ${indices[rank]}}}"
IFS=, read -ra shares <<<"$TRAIN_GPUS"
IFS=, read -ra seen <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $((4 - 1)))}"
CUDA_VISIBLE_DEVICES=
if [ "${shares[rank]}" != none ]; then
  CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${seen[*]:shares[rank]:2}")
fi
export CUDA_VISIBLE_DEVICES
exec "$@"'

for ((attempt = 0; ; ++attempt)); do
  srun --ntasks=5 --ntasks-per-node=2 --distribution=block --kill-on-bad-exit=1 \
    --export=ALL bash -c "$become" "train" "${program[@]}"
  status=$?
  [ "$status" -eq 0 ] && exit 0
  if [ "$status" -eq 42 ]; then
    echo "train: was asked to stop and has saved; queued again" >&2
    scontrol requeue "$SLURM_JOB_ID" && exit 0
    exit 42
  fi
  # The tasks of the other nodes notice a node's end long before SLURM does.
  if ! timeout 60 srun --nodes=3 --ntasks=3 --ntasks-per-node=1 true; then
    echo "train: a node does not answer; queued again" >&2
    scontrol requeue "$SLURM_JOB_ID" && exit 0
    exit "$status"
  fi
  echo "train: ended with $status; start $((attempt + 1)) of $((2 + 1))" >&2
  [ "$attempt" -lt 2 ] || exit "$status"
done
