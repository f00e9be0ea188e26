#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "runtime/context.h"
#include "runtime/replica_group.h"
#include "strata/summary/recording.h"

namespace strata {
namespace detail {
namespace {

ReplicaContext& default_replica() {
  static ReplicaContext context(*default_group(), 0);
  return context;
}

Context& this_thread() {
  static thread_local Context context{default_group().get(), &default_replica()};
  return context;
}

/// Makes `context` this thread's. A process's first replica records its summaries, as in
/// TensorFlow.
void enter(const Context& context) {
  this_thread() = context;
  summary::detail::set_replica_records(context.replica == nullptr ||
                                       context.replica->local_replica() == 0);
}

}  // namespace

const std::shared_ptr<ReplicaGroup>& default_group() {
  static const std::shared_ptr<ReplicaGroup> group = std::make_shared<ReplicaGroup>(
      ReplicaGroupOptions{.name = "default_strategy",
                          .devices = {{.name = "/job:localhost/replica:0/task:0/device:CPU:0",
                                       .type = "CPU",
                                       .index = 0,
                                       .physical = c10::Device(c10::kCPU)}},
                          .cross_device_ops = nullptr,
                          .use_cpu_kernels = false});
  return group;
}

const Context& current_context() { return this_thread(); }

ContextGuard::ContextGuard(const Context& context) : previous_(this_thread()) {
  // Initial values are computed as replicas compute: on one thread (tensor/thread_setup.h).
  if (context.replica == nullptr && context.group != default_group().get() &&
      at::get_num_threads() > 1) {
    one_thread_.emplace(tensor::ThreadSetup{.intra_op_threads = 1,
                                            .kernel_threads = at::get_num_threads(),
                                            .flush_denormals = tensor::denormals_flushed()});
  }
  enter(context);
}

ContextGuard::~ContextGuard() { enter(previous_); }

void require_cross_replica(std::string_view call) {
  const Context& context = current_context();
  STRATA_CHECK(context.replica == nullptr || context.group == default_group().get(),
               kFailedPrecondition, "[", context.group->name(), "] ", call,
               ": called in replica context (by a function that run() executes); expected "
               "cross-replica context; move the call out of the function, or make it inside "
               "get_replica_context()->merge_call(...)");
}

void require_unmixed(const ReplicaGroup& group, std::string_view call) {
  const ReplicaGroup* const here = current_context().group;
  STRATA_CHECK(here == &group || here == default_group().get() || &group == default_group().get(),
               kFailedPrecondition, "[", group.name(), "] ", call, ": called in the scope of ",
               here->name(),
               ", another strategy; Mixing different tf.distribute.Strategy objects is not "
               "possible: end that scope first");
}

}  // namespace detail

ReplicaContext* get_replica_context() { return detail::current_context().replica; }

bool in_cross_replica_context() { return get_replica_context() == nullptr; }

}  // namespace strata
