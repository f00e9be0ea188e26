#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/collective/reduce_op.h"
#include "strata/core/export.h"
#include "strata/runtime/devices.h"
#include "strata/runtime/per_replica.h"

namespace strata {

/// The communication of values between the replicas of a strategy. Derive from it for an algorithm
/// of your own, and pass it to `MirroredStrategy({.cross_device_ops = ...})`; gradients,
/// `all_reduce` and `reduce` then use it.
///
/// Threads: called by one thread at a time, while all replicas wait.
/// Source: tf.distribute.CrossDeviceOps.
class STRATA_API CrossDeviceOps {
 public:
  virtual ~CrossDeviceOps();

  /// Reduces one value over the replicas.
  /// @param values  One per replica, each `[*shape]` on its replica's device, equal shape and
  /// dtype.
  /// @return One per replica, each `[*shape]` on that replica's device; they may be one tensor.
  /// @throws Error  kInvalidArgument: no values, unequal shapes or dtypes.
  ///                kInternal: the implementation returned something else than documented.
  PerReplica<at::Tensor> reduce(ReduceOp op, const PerReplica<at::Tensor>& values);

  /// Reduces several values at once; an implementation may pack them.
  std::vector<PerReplica<at::Tensor>> batch_reduce(
      ReduceOp op, const std::vector<PerReplica<at::Tensor>>& values);

  /// Copies `value` to each of `devices`.
  PerReplica<at::Tensor> broadcast(const at::Tensor& value,
                                   const std::vector<LogicalDevice>& devices);

 private:
  virtual PerReplica<at::Tensor> do_reduce(ReduceOp op, const PerReplica<at::Tensor>& values) = 0;
  /// Calls `do_reduce` for each value by default.
  virtual std::vector<PerReplica<at::Tensor>> do_batch_reduce(
      ReduceOp op, const std::vector<PerReplica<at::Tensor>>& values);
  /// Makes one copy for each device by default.
  virtual PerReplica<at::Tensor> do_broadcast(const at::Tensor& value,
                                              const std::vector<LogicalDevice>& devices);
};

/// Copies all values to one device, adds them there in the fixed tree order, and copies back. A
/// batch of values on GPUs is packed into one, since launching kernels dominates a GPU's time.
/// Source: tf.distribute.ReductionToOneDevice.
class STRATA_API ReductionToOneDevice : public CrossDeviceOps {
 public:
  struct Options {
    std::string reduce_to_device = {};  ///< "cpu:0", "gpu:1"; empty: the first replica's device.
    /// Sums one value per replica; null: the fixed tree order. Means are divided afterwards.
    at::Tensor (*accumulation_fn)(const std::vector<at::Tensor>&) = nullptr;
  };
  ReductionToOneDevice() = default;
  explicit ReductionToOneDevice(Options options) : options_(std::move(options)) {}

 private:
  PerReplica<at::Tensor> do_reduce(ReduceOp op, const PerReplica<at::Tensor>& values) override;
  std::vector<PerReplica<at::Tensor>> do_batch_reduce(
      ReduceOp op, const std::vector<PerReplica<at::Tensor>>& values) override;

  Options options_;
};

/// Options of the algorithms that pack many tensors into few.
struct PackingOptions {
  int num_packs = 1;  ///< The number of messages for all gradients; 0: one each.
};

/// Adds on one device of each half of the devices, then across the halves, tensor i on the i-th
/// device in turn: for hosts whose devices form two groups with fast links inside. Any number of
/// devices. Source: tf.distribute.HierarchicalCopyAllReduce (which loses the last of an odd
/// number).
class STRATA_API HierarchicalCopyAllReduce : public CrossDeviceOps {
 public:
  /// @throws Error  kInvalidArgument: num_packs is negative.
  explicit HierarchicalCopyAllReduce(PackingOptions options = {});

 private:
  PerReplica<at::Tensor> do_reduce(ReduceOp op, const PerReplica<at::Tensor>& values) override;
  std::vector<PerReplica<at::Tensor>> do_batch_reduce(
      ReduceOp op, const std::vector<PerReplica<at::Tensor>>& values) override;

  PackingOptions options_;
  size_t next_device_ = 0;
};

/// Uses NCCL among distinct physical GPUs. Where replicas share a card (logical GPUs), NCCL cannot
/// form a communicator, and the values are added on the card itself. Source:
/// tf.distribute.NcclAllReduce.
class STRATA_API NcclAllReduce : public CrossDeviceOps {
 public:
  /// @throws Error  kInvalidArgument: num_packs is negative.
  ///                kUnimplemented: NCCL's library cannot be opened; tells how to get it.
  explicit NcclAllReduce(PackingOptions options = {});
  ~NcclAllReduce() override;

 private:
  PerReplica<at::Tensor> do_reduce(ReduceOp op, const PerReplica<at::Tensor>& values) override;
  std::vector<PerReplica<at::Tensor>> do_batch_reduce(
      ReduceOp op, const std::vector<PerReplica<at::Tensor>>& values) override;

  struct Communicators;
  PackingOptions options_;
  std::unique_ptr<Communicators> communicators_;
};

/// Returns MirroredStrategy's default: null (the `in_process` back end) when all are CPUs, NCCL on
/// distinct physical GPUs if its library can be opened, else ReductionToOneDevice.
STRATA_API std::shared_ptr<CrossDeviceOps> choose_cross_device_ops(
    const std::vector<LogicalDevice>& devices);

namespace detail {

/// Returns the start of each of `num_packs` packs in the concatenation of tensors with `total`
/// elements, and its end: total / num_packs each, the remainder in the last.
STRATA_API std::vector<int64_t> pack_borders(int64_t total, int num_packs);

/// Packs `values` of each replica into `num_packs` flat tensors (0: leaves them alone), calls
/// `reduce` on each and unpacks.
STRATA_API std::vector<PerReplica<at::Tensor>> reduce_packed(
    const std::vector<PerReplica<at::Tensor>>& values, int num_packs,
    const std::function<PerReplica<at::Tensor>(const PerReplica<at::Tensor>&)>& reduce);

}  // namespace detail
}  // namespace strata
