#!/usr/bin/env bash
# A rendered script under a real SLURM (Debian: slurm-wlm), with four virtual nodes on this machine: on 2 and on 4 nodes; a
# node that dies; a job that is asked to stop. Each time the weights have the SHA-256 of one process that does it all.
#
#   tests/tools/slurm_test.sh STRATA TRAINER
#
# STRATA: the command; TRAINER: strata_multi_worker_trainer. Exit code 77: this machine cannot run it, and why is printed.
# It needs root and a mount namespace of its own, where /etc/hosts has the nodes. All that it starts ends with it.
set -euo pipefail

skip() {
  echo "skipped: $*"
  exit 77
}
for command in slurmctld slurmd munged srun sbatch scontrol unshare; do
  PATH=$PATH:/usr/sbin command -v "$command" >/dev/null || skip "there is no $command (Debian: slurm-wlm, munge, util-linux)"
done
[ "$(id -u)" -eq 0 ] || skip "virtual nodes need root"
if [ -z "${SLURM_TEST_INSIDE:-}" ]; then
  unshare --mount --pid --fork --mount-proc true 2>/dev/null || skip "namespaces are not permitted"
  # Its first process ends: so do all others, whatever happens.
  SLURM_TEST_INSIDE=1 exec timeout -k 5 280 unshare --mount --pid --fork --kill-child --mount-proc "$0" "$@"
fi
PATH=$PATH:/usr/sbin
strata=$(realpath "$1")
trainer=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
host=$(hostname -s)

mkdir -m 700 munge state spool run
head -c 128 /dev/urandom >munge/key
chmod 400 munge/key
{
  cat /etc/hosts
  echo "127.0.0.1 $host"
  for i in 1 2 3 4; do echo "127.0.1.1$i n$i"; done
} >hosts
mount --bind hosts /etc/hosts
cat >slurm.conf <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/sock
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/run/ctld.pid
SlurmdPidFile=$folder/run/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=20
MailProg=/bin/true
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=17001 CPUs=2 RealMemory=1000
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=17002 CPUs=2 RealMemory=1000
NodeName=n3 NodeHostname=$host NodeAddr=127.0.0.1 Port=17003 CPUs=2 RealMemory=1000
NodeName=n4 NodeHostname=$host NodeAddr=127.0.0.1 Port=17004 CPUs=2 RealMemory=1000
PartitionName=all Nodes=n[1-4] Default=YES MaxTime=10 State=UP
END
export SLURM_CONF=$folder/slurm.conf

fail() {
  echo "failed: $*"
  tail -n 30 ./*.log || true
  exit 1
}
# Until the command succeeds; at most $1 seconds.
await() {
  local limit=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $limit ] || fail "waited for: $*"
    sleep 0.02
  done
}
munged -F --force --key-file="$folder/munge/key" --socket="$folder/munge/sock" --pid-file="$folder/munge/pid" \
  --log-file="$folder/munged.log" --seed-file="$folder/munge/seed" >/dev/null 2>&1 &
await 20 test -S munge/sock
slurmctld -D -c >slurmctld.out 2>&1 &
declare -A daemons=()
start_node() {
  slurmd -D -N "$1" >"slurmd-$1.out" 2>&1 &
  daemons[$1]=$!
}
for node in n1 n2 n3 n4; do start_node $node; done
idle() { [ "$(sinfo -h -o '%D %t')" = '4 idle' ]; }
await 40 idle

export STRATA_TEST_IMPLEMENTATION=WIRE
"$trainer" loop 8 >reference.txt 2>&1
sha=$(grep -o '^sha256 [0-9a-f]*' reference.txt)
echo "one process: $sha"

# $1: nodes; the job trains in a folder of its own. Prints the job's number.
submit() {
  "$strata" render slurm -n "$1" --name "$2" --restarts 0 --grace 30 --time 5 --env STRATA_TEST_LIVENESS_MS=1000 -- \
    "$trainer" loop $((8 / $1)) "$folder/$2" >"$2.sh"
  bash -n "$2.sh"
  mkdir "$2"
  sbatch --parsable "$2.sh"
}
ended() { [ -z "$(squeue -h -j "$1" 2>/dev/null)" ]; }
# $1: the job's log, $2: its nodes. All tasks have the one process's weights, in the end and where they had ended before.
check() {
  [ "$(grep '^sha256 ' "$1" | sort -u)" = "$sha" ] || fail "$1 has other weights than $sha"
  [ "$(grep -c "^$sha\$" "$1")" -ge "$2" ] || fail "$1 has fewer than $2 times $sha"
  echo "$1: $sha"
}
requeued() { squeue -h -j "$job" -t PENDING -o %i | grep -q .; }
requeued_or_ended() { requeued || ended "$job"; }
# Its daemon, and what that had started: by number, and in this script's own process namespace.
kill_node() {
  local pid
  kill -9 "${daemons[$1]}"
  for pid in $(pgrep -f "slurmstepd: \\[$job|$trainer loop" || true); do
    if { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -q "^SLURMD_NODENAME=$1\$"; then kill -9 "$pid"; fi
  done
}
# $1: nodes, $2: what happens to the job in its third step, a function. It is queued again, and continues. Where it was
# faster than what happened to it, another one is tried.
interrupt() {
  local attempt
  for attempt in 1 2 3; do
    job=$(submit "$1" "$2$attempt")
    log=$2$attempt-$job.log
    await 60 grep -q '^step 2$' "$log"
    "$2"
    await 90 requeued_or_ended
    if requeued; then
      scontrol update "jobid=$job" StartTime=now
      await 90 ended "$job"
      grep -q '^starts at step [1-9]' "$log" || fail "the job did not continue"
      check "$log" "$1"
      return
    fi
    await 40 idle
  done
  fail "$2: the job was never interrupted"
}

job=$(submit 2 two)
await 90 ended "$job"
check "two-$job.log" 2

# A node dies: SLURM puts the job into the queue again.
lost() {
  kill_node n3
  scontrol update nodename=n3 state=down reason=test
  await 60 requeued_or_ended
  start_node n3
  scontrol update nodename=n3 state=resume
}
interrupt 4 lost

# SLURM has not noticed yet, and the other tasks have: the script asks the nodes, and queues the job again.
answered() { grep -q 'a node does not answer; queued again' "$log" || ended "$job"; }
late() {
  kill_node n2
  await 90 answered
  start_node n2
}
interrupt 2 late

# Asked to stop, it saves, ends with 42 and is queued again by its own script.
asked() { scancel --signal=TERM "$job"; }
interrupt 2 asked
grep -q 'has saved; queued again' "$log" || fail "it was queued again for another reason"
echo passed
