#!/usr/bin/env bash
# scripts/soak.sh BUILD SECONDS: runs every test again and again, its cases in a new random order each time, until the
# time is over or one fails. The seed of a failure is printed: GTEST_RANDOM_SEED=n repeats its order.
#
# First a training run is killed STRATA_SOAK_KILLS times (300) at random moments and resumed, and fit with every
# callback STRATA_SOAK_FIT_KILLS times (200); STRATA_SOAK_SEED=n repeats a run's choices. Then STRATA_SOAK_CLUSTER_FAULTS
# (300) clusters lose a task or a link, STRATA_SOAK_JOB_FAULTS (500) jobs that train lose a worker, the workers of
# STRATA_SOAK_COORDINATOR (1000, threads) and STRATA_SOAK_COORDINATOR_FAULTS (200, processes) coordinators come and go,
# STRATA_SOAK_PS_FAULTS (500, a tenth of them processes) jobs with parameter servers lose tasks or links, and
# STRATA_SOAK_LIMITS (100) and STRATA_SOAK_SIGNALS (300) jobs are short of memory and disk, or stopped, and STRATA_FUZZ_STRANGERS
# (10000) send noise to a cluster. A standalone client is killed STRATA_SOAK_CLIENT_KILLS times (50), and servers get STRATA_FUZZ_STEPS
# (10000) damaged steps. Then STRATA_FUZZ_MUTATIONS (200000) damaged HDF5 files and STRATA_FUZZ_GRAPHS (10000)
# damaged graphs are read; STRATA_FUZZ_SEED=n repeats them. Where the preset `fuzz` is built, a quarter of the time is the fuzz targets'
# (scripts/fuzz.sh, which adds their inputs up from run to run).
set -euo pipefail
build=$1
end=$((SECONDS + $2))
rounds=0
kill_seed=${STRATA_SOAK_SEED:-$((RANDOM + 1))}
echo "soak: kills with STRATA_SOAK_SEED=$kill_seed"
STRATA_SOAK_KILLS=${STRATA_SOAK_KILLS:-300} STRATA_SOAK_SEED=$kill_seed "$build/strata_checkpoint_kill_test"
if [ -x "$build/strata_keras_fit_kill_test" ]; then
  STRATA_SOAK_KILLS=${STRATA_SOAK_FIT_KILLS:-200} STRATA_SOAK_SEED=$kill_seed "$build/strata_keras_fit_kill_test"
fi
if [ -x "$build/strata_cluster_process_test" ]; then
  echo "soak: clusters with faults, strangers at a cluster's doors"
  STRATA_SOAK_CLUSTER_FAULTS=${STRATA_SOAK_CLUSTER_FAULTS:-300} STRATA_SOAK_SEED=$kill_seed \
    "$build/strata_cluster_process_test" --gtest_filter='*WhateverHappens*'
  STRATA_FUZZ_STRANGERS=${STRATA_FUZZ_STRANGERS:-10000} STRATA_FUZZ_SEED=$kill_seed \
    "$build/strata_cluster_test" --gtest_filter='SecurityFuzzTest.*'
fi
if [ -x "$build/strata_multi_worker_faults_test" ]; then
  echo "soak: jobs that train, with faults"
  STRATA_SOAK_JOB_FAULTS=${STRATA_SOAK_JOB_FAULTS:-500} STRATA_SOAK_SEED=$kill_seed \
    "$build/strata_multi_worker_faults_test" --gtest_filter='*WhateverHappens*'
fi
if [ -x "$build/strata_ps_coordinator_process_test" ]; then
  echo "soak: coordinators whose workers come and go"
  STRATA_SOAK_COORDINATOR=${STRATA_SOAK_COORDINATOR:-1000} STRATA_SOAK_SEED=$kill_seed \
    "$build/strata_ps_coordinator_test" --gtest_filter='*WhateverHappens*'
  STRATA_SOAK_COORDINATOR_FAULTS=${STRATA_SOAK_COORDINATOR_FAULTS:-200} STRATA_SOAK_SEED=$kill_seed \
    "$build/strata_ps_coordinator_process_test" --gtest_filter='*WhateverHappens*'
fi
if [ -x "$build/strata_ps_faults_test" ]; then
  echo "soak: jobs with parameter servers, with faults"
  for test in ps_faults parameter_servers_job; do
    STRATA_SOAK_PS_FAULTS=${STRATA_SOAK_PS_FAULTS:-500} STRATA_SOAK_SEED=$kill_seed \
      "$build/strata_${test}_test" --gtest_filter='*WhateverHappens*'
  done
fi
if [ -x "$build/strata_multi_worker_defaults_test" ]; then
  echo "soak: jobs with nothing set, however they are started"
  STRATA_SOAK_DEFAULTS=1 "$build/strata_multi_worker_defaults_test"
fi
if [ -x "$build/strata_standalone_test" ]; then
  echo "soak: standalone clients that are killed, damaged steps and messages"
  STRATA_SOAK_CLIENT_KILLS=${STRATA_SOAK_CLIENT_KILLS:-50} STRATA_SOAK_SEED=$kill_seed \
    "$build/strata_standalone_test" --gtest_filter='*AKilledClientContinues'
  STRATA_FUZZ_STEPS=${STRATA_FUZZ_STEPS:-10000} STRATA_FUZZ_SEED=$kill_seed "$build/strata_standalone_messages_test"
fi
if [ -x "$build/strata_stress_test" ]; then
  echo "soak: jobs under limits and signals"
  STRATA_SOAK_LIMITS=${STRATA_SOAK_LIMITS:-100} STRATA_SOAK_SIGNALS=${STRATA_SOAK_SIGNALS:-300} \
    STRATA_SOAK_SEED=$kill_seed "$build/strata_stress_test"
fi
if [ -x "$build/strata_keras_files_test" ]; then
  fuzz_seed=${STRATA_FUZZ_SEED:-$((RANDOM + 1))}
  echo "soak: damaged files with STRATA_FUZZ_SEED=$fuzz_seed"
  STRATA_FUZZ_MUTATIONS=${STRATA_FUZZ_MUTATIONS:-200000} STRATA_FUZZ_SEED=$fuzz_seed \
    "$build/strata_keras_files_test" --gtest_filter='FuzzTest.*'
fi
if [ -e build/fuzz/fuzz_targets.tsv ]; then
  echo "soak: fuzz targets"
  scripts/fuzz.sh run $(($2 / 4))
fi
if [ -x "$build/strata_graph_test" ]; then
  fuzz_seed=${STRATA_FUZZ_SEED:-$((RANDOM + 1))}
  echo "soak: damaged graphs with STRATA_FUZZ_SEED=$fuzz_seed"
  STRATA_FUZZ_GRAPHS=${STRATA_FUZZ_GRAPHS:-10000} STRATA_FUZZ_SEED=$fuzz_seed \
    "$build/strata_graph_test" --gtest_filter='DamagedGraphTest.Mutations*'
fi
while [ $SECONDS -lt $end ]; do
  seed=$((RANDOM + 1))
  if ! GTEST_SHUFFLE=1 GTEST_RANDOM_SEED=$seed ctest --test-dir "$build" --output-on-failure -LE slow -j "$(nproc)" -Q \
    -O "$build/soak.log"; then
    cat "$build/soak.log"
    echo "soak: failed in round $((rounds + 1)) with GTEST_RANDOM_SEED=$seed" >&2
    exit 1
  fi
  rounds=$((rounds + 1))
  tail -n 1 "$build/soak.log"
done
echo "soak: $rounds rounds, no failure"
