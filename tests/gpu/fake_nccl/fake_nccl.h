#pragma once

#include <nccl.h>

/// A library with NCCL's interface, for processes of one machine without GPUs: what tests tell it and ask it. Everything else is
/// NCCL's own (<nccl.h>), and behaves as NCCL's documentation says:
///   * Operations run on threads of the library, those of a communicator in order. What a failed communicator has not finished
///     stays on its streams until ncclCommAbort or ncclCommDestroy.
///   * With `blocking = 0` a call returns ncclInProgress, and ncclCommGetAsyncError has to be asked (once is enough for an
///     operation) before the communicator takes the next call.
///   * ncclSend without its ncclRecv waits, however few the bytes: what is no deadlock in NCCL only since it buffers is one here.
///     Two ranks that wait for each other, and counts, types or operations that differ, are ncclInvalidUsage on all ranks.
///   * Sums are in ring order, each part of the data begun at another rank, and rounded at each rank.
///
/// Environment, read when a communicator is made:
///   STRATA_FAKE_NCCL       faults, separated by semicolons; `rank` is the rank in a communicator, without it each rank has it;
///                          `call` is the number of the operation in its communicator, from 1; `comm=K` restricts a fault to the
///                          K-th communicator of the process, from 1:
///     stall:rank=R,call=N    the operation moves no data
///     error:rank=R,call=N    ncclSystemError there, ncclRemoteError at its peers
///     init_stall:rank=R      ncclCommInitRank and its like fail after init_ms
///     init_error:rank=R      ncclSystemError there, ncclRemoteError at its peers
///     delay_us=D             of each operation, before it moves data
///     destroy_ms=D           how long ncclCommDestroy waits for operations that have not ended (2000), before it aborts them
///     init_ms=D              how long a communicator may take to connect (120000)
///     version=V              what ncclGetVersion says
///   STRATA_FAKE_NCCL_HOST  the name of this host (localhost)
extern "C" {

/// Takes the place of STRATA_FAKE_NCCL in this process; null: the environment again. Communicators are
/// counted from here on. 0, or 1 where it cannot be read.
__attribute__((visibility("default"))) int fake_nccl_set_faults(const char* faults);

/// Operations that have ended without a failure, of all communicators of this process.
/// @param kind  AllReduce, Reduce, Broadcast, ReduceScatter, AllGather, Send, Recv or Split.
__attribute__((visibility("default"))) unsigned long long fake_nccl_operations(const char* kind);

/// Bytes of tensors that this process has sent to rank `peer` of its communicators, all together.
__attribute__((visibility("default"))) unsigned long long fake_nccl_bytes_sent(int peer);
/// The same for one communicator.
__attribute__((visibility("default"))) unsigned long long fake_nccl_bytes_sent_by(ncclComm_t comm,
                                                                                  int peer);
/// Bytes to ranks whose host name is another.
__attribute__((visibility("default"))) unsigned long long fake_nccl_bytes_to_other_hosts();

/// Sets all counters to 0.
__attribute__((visibility("default"))) void fake_nccl_reset_counters();

/// Communicators of this process that have not been destroyed or aborted.
__attribute__((visibility("default"))) int fake_nccl_open_communicators();

/// Where there are no emulated GPUs: waits until the stream is empty.
/// @return 0; 1 after `timeout_ms`; 2 if an operation has failed since the last call.
__attribute__((visibility("default"))) int fake_nccl_stream_synchronize(cudaStream_t stream,
                                                                        int timeout_ms);
}
