#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/collective/algorithms.h"
#include "strata/core/export.h"
#include "strata/core/one_of.h"

namespace strata::collective {

struct CommunicationImplementationWords {
  enum Word {
    kAuto,
    kWire,
    kMpi,
    kNccl,
    kDirect,
    kExchange,
    kHalvingDoubling,
    kRecursiveDoubling,
    kHierarchical,
    kRing,
    kTree
  };
  static constexpr const char* kOption = "implementation";
  static constexpr const char* kWords[] = {"AUTO",
                                           "WIRE",
                                           "MPI",
                                           "NCCL",
                                           "DIRECT",
                                           "EXCHANGE",
                                           "HALVING_DOUBLING",
                                           "RECURSIVE_DOUBLING",
                                           "HIERARCHICAL",
                                           "RING",
                                           "TREE"};
};
using CommunicationImplementation = OneOf<CommunicationImplementationWords>;

struct GradientCompressionWords {
  enum Word { kNone, kBFloat16, kFloat16 };
  static constexpr const char* kOption = "gradient_compression";
  static constexpr const char* kWords[] = {"NONE", "BFLOAT16", "FLOAT16"};
};
using GradientCompression = OneOf<GradientCompressionWords>;

/// Options of communication between the replicas of several processes.
/// Source: tf.distribute.experimental.CommunicationOptions; `order` is an addition.
struct CommunicationOptions {
  /// The order in which sums are added. Order::kAny lets AUTO use the ring; results then depend on
  /// where replicas live.
  Order order = Order::kFixed;
  /// The limit of each collective, from its start on. When it has passed, every rank gets an error
  /// that names the missing ranks.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);

  /// "AUTO" picks the fastest for each size: shared memory if all ranks are on one host, else an
  /// algorithm of messages. "WIRE" is AUTO without shared memory. "MPI" uses MPI's collectives, for
  /// processes that mpirun or srun has started (make_mpi_communicator). "NCCL" requires it for
  /// gradients of replicas that have a GPU each, which AUTO uses where all workers have it, GPUs
  /// and no TLS between hosts. The name of an algorithm ("RING", "DIRECT", "HALVING_DOUBLING", ...,
  /// in any case, or one of `algorithms`) selects it for every size, with messages.
  CommunicationImplementation implementation = "AUTO";
  /// The size of a bucket of tensors that are reduced together (TensorFlow's name; see `packs_of`).
  /// 0: one bucket, or as many as `overlap` needs.
  int64_t bytes_per_pack = 0;
  /// Reduces gradients while backward still runs. Default: true on several hosts; on one host the
  /// cores that would move them are busy.
  std::optional<bool> overlap = {};
  /// "BFLOAT16" or "FLOAT16": each replica rounds its gradients of float32 and float64 variables to
  /// 16 bits, the rounded ones are added in float32, and so is the update: gradients take half the
  /// bytes on the wire, but for partial sums, which stay in float32. Not gradients of embeddings
  /// (sparse ones). float16 is the more exact, and infinite beyond 65504: LossScaleOptimizer then
  /// leaves the step out. Replicas of one process on CPUs send nothing, and round nothing. Source:
  /// bf16_compress_hook of torch.distributed.algorithms.ddp_comm_hooks.
  GradientCompression gradient_compression = "NONE";
  /// Additional algorithms, the same in all processes: AUTO chooses from them, too, and
  /// `implementation` may name one. Each schedule is verified before it is used (`find_fault`).
  /// They use messages, as all algorithms.
  std::vector<Algorithm> algorithms = {};
};

/// Divides tensors of these sizes into buckets: the last tensor comes first, since backward
/// finishes it first; a bucket ends when its size exceeds `bytes_per_pack`. @return indices into
/// `bytes`, a vector for each bucket.
/// @throws Error kInvalidArgument: negative sizes.
/// Source: tf.distribute.CollectiveAllReduce.
STRATA_API std::vector<std::vector<size_t>> packs_of(const std::vector<int64_t>& bytes,
                                                     int64_t bytes_per_pack);

}  // namespace strata::collective
