#include "strata/runtime/variable.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/scalar_tensor.h>

#include "core/mutex.h"
#include "graph/host_call.h"
#include "graph/inference_mode.h"
#include "graph/remote/step_runner.h"
#include "graph/trace_key.h"
#include "kernels/half_cast.h"
#include "runtime/coalesced_read.h"
#include "runtime/context.h"
#include "runtime/group_exchange.h"
#include "runtime/half_copy.h"
#include "runtime/replica_group.h"
#include "runtime/set_in_step.h"
#include "runtime/variable_placement.h"
#include "tensor/device_copy.h"

namespace strata {
namespace {

using detail::Context;
using detail::VariableState;

enum class Write { kAssign, kAdd, kSub, kScatterAdd };

constexpr std::string_view kWriteNames[] = {"assign", "assign_add", "assign_sub", "scatter_add"};

/// A write, as a replica hands it to the others.
struct WriteRequest {
  VariableState* variable;
  Write write;
  at::Tensor indices;  // of kScatterAdd
  at::Tensor value;
};

void apply(const at::Tensor& target, const WriteRequest& request) {
  const at::NoGradGuard no_grad;
  at::Tensor data = target.detach();  // has the target's version counter
  const at::Tensor value = tensor::to_device(request.value, data.device()).to(data.scalar_type());
  switch (request.write) {
    case Write::kAssign:
      data.copy_(value);
      return;
    case Write::kAdd:
      data.add_(value);
      return;
    case Write::kSub:
      data.sub_(value);
      return;
    case Write::kScatterAdd:
      data.index_add_(0, tensor::to_device(request.indices, data.device()), value);
      return;
  }
}

void apply_to_all(VariableState& variable, const WriteRequest& request) {
  if (variable.shares_storage() || variable.has_mirrors()) {
    apply(variable.central(), request);
  } else {
    for (const at::Tensor& replica : variable.replicas()) apply(replica, request);
  }
  variable.bump_version();
}

/// The replicas' values as one write.
WriteRequest aggregate(const ReplicaGroup& group, const std::vector<WriteRequest*>& requests,
                       VariableAggregation aggregation) {
  WriteRequest result = *requests[0];
  const std::string what = str_cat("write of '", result.variable->options().name, "'");
  std::vector<at::Tensor> indices;
  std::vector<at::Tensor> values;
  for (const WriteRequest* request : requests) {
    indices.push_back(request->indices);
    values.push_back(request->value);
  }
  if (aggregation == VariableAggregation::kOnlyFirstReplica) {
    if (group.communicator() == nullptr) return result;
    result.indices = detail::gather_over_group(group, indices, what)[0];
    result.value = detail::gather_over_group(group, values, what)[0];
    return result;
  }
  const bool mean = aggregation == VariableAggregation::kMean;
  if (result.write == Write::kScatterAdd) {
    result.indices = at::cat(detail::gather_over_group(group, indices, what));
    result.value = at::cat(detail::gather_over_group(group, values, what));
    if (mean) result.value = result.value.div(static_cast<double>(group.num_replicas()));
    return result;
  }
  result.value =
      detail::reduce_over_group(group, values, mean ? ReduceOp::kMean : ReduceOp::kSum, what);
  return result;
}

/// By all replicas of this process.
void write_together(VariableState& variable, const ReplicaContext& replica, WriteRequest request) {
  const auto key = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&variable)) * 4 +
                   static_cast<uint64_t>(request.write);
  replica.synchronize(
      kWriteNames[static_cast<int>(request.write)], &request,
      [&](const std::vector<void*>& all) {
        std::vector<WriteRequest*> requests;
        for (void* each : all) requests.push_back(static_cast<WriteRequest*>(each));
        apply_to_all(variable,
                     aggregate(*variable.group(), requests, variable.options().aggregation));
      },
      key);
}

/// In a step that is computed elsewhere: each replica joins what all write, and writes it to its own copy.
void write_elsewhere(VariableState& variable, const ReplicaContext& replica, WriteRequest request) {
  const at::NoGradGuard no_grad;
  const auto aggregation = variable.options().aggregation;
  const auto first = [&](const at::Tensor& x) {
    return replica.all_gather(x.unsqueeze(0), 0).select(0, 0);
  };
  const bool adds_rows = request.write == Write::kScatterAdd;
  if (aggregation == VariableAggregation::kOnlyFirstReplica) {
    if (adds_rows) request.indices = first(request.indices);
    request.value = first(request.value);
  } else if (adds_rows) {
    request.indices = replica.all_gather(request.indices, 0);
    request.value = replica.all_gather(request.value, 0);
    if (aggregation == VariableAggregation::kMean) {
      request.value = request.value.div(static_cast<double>(replica.num_replicas_in_sync()));
    }
  } else {
    const bool mean = aggregation == VariableAggregation::kMean;
    request.value = replica.all_reduce(mean ? ReduceOp::kMean : ReduceOp::kSum, request.value);
  }
  const at::Tensor& own = variable.replicas()[static_cast<size_t>(replica.local_replica())];
  if (!variable.has_bound_storage()) return apply(own, request);
  const at::Tensor value = own.detach().clone();
  apply(value, request);
  detail::set_in_step(variable, replica, value);
}

void write_by_replica(VariableState& variable, const ReplicaContext& replica,
                      WriteRequest& request) {
  const auto aggregation = variable.options().aggregation;
  const auto local = static_cast<size_t>(replica.local_replica());
  if (variable.on_read() || aggregation == VariableAggregation::kNone) {
    if (!variable.group()->placement().has_copy_per_replica() && !variable.on_read()) {
      STRATA_CHECK(variable.group()->num_replicas() == 1, kFailedPrecondition, "[variable] ",
                   kWriteNames[static_cast<int>(request.write)], ": '", variable.options().name,
                   "' has one copy for all replicas, and a replica wrote to it without "
                   "aggregation; give it an aggregation (kMean, kSum, kOnlyFirstReplica)");
      return apply_to_all(variable, request);
    }
    STRATA_CHECK(
        !variable.is_replicated() || variable.replicas().size() == 1, kFailedPrecondition,
        "[variable] ", kWriteNames[static_cast<int>(request.write)], ": '", variable.options().name,
        "' is trained by an optimizer, so its replicas have one value, and a replica wrote to it "
        "without aggregation; give it an aggregation (kMean, kSum, kOnlyFirstReplica), or make the "
        "strategy with {.replicas = {.share_storage = false}}");
    apply(variable.replicas()[local], request);
    variable.record_version(replica.local_replica());
    return;
  }
  if (!graph::tracing()) return write_together(variable, replica, std::move(request));
  if (graph::records_for_elsewhere()) {
    return write_elsewhere(variable, replica, std::move(request));
  }
  // A node of the step that is traced, which writes again.
  graph::call_host(
      str_cat("strata::", kWriteNames[static_cast<int>(request.write)]),
      {request.indices, request.value}, {},
      [&variable, &replica, write = request.write](const std::vector<at::Tensor>& given) {
        write_together(variable, replica, {&variable, write, given[0], given[1]});
        return std::vector<at::Tensor>();
      });
}

void write_cross_replica(VariableState& variable, WriteRequest request) {
  if (variable.on_read() && variable.options().aggregation == VariableAggregation::kSum) {
    STRATA_CHECK(
        request.write == Write::kAssign, kFailedPrecondition, "[variable] ",
        kWriteNames[static_cast<int>(request.write)], ": '", variable.options().name,
        "' is a sum over replicas that is read on demand; outside run() only assign is defined");
    const auto replicas = static_cast<double>(variable.group()->num_replicas());
    const bool integer = !variable.replicas()[0].is_floating_point();
    request.value = integer ? request.value.div(replicas, "trunc") : request.value.div(replicas);
  }
  apply_to_all(variable, request);
}

void write(VariableState& variable, WriteRequest request) {
  STRATA_CHECK(!(request.write == Write::kScatterAdd && variable.on_read()), kUnimplemented,
               "[variable] scatter_add: '", variable.options().name,
               "' is synchronized on read; scatter operations are not defined for it");
  const Context& context = detail::current_context();
  const bool plain = variable.group() == detail::default_group();
  if (context.replica && context.group == variable.group().get() && !plain) {
    return write_by_replica(variable, *context.replica, request);
  }
  if (context.replica && !plain && context.group != detail::default_group().get()) {
    detail::throw_error(
        ErrorCode::kFailedPrecondition,
        str_cat("[variable] ", kWriteNames[static_cast<int>(request.write)], ": '",
                variable.options().name, "' belongs to ", variable.group()->name(),
                " and was written by a replica of ", context.group->name(),
                "; Mixing different tf.distribute.Strategy objects is not possible"));
  }
  if (plain) {
    // Replicas of any strategy may share a plain variable: their writes take turns.
    static Mutex turn;
    MutexLock lock(turn);
    return apply_to_all(variable, request);
  }
  write_cross_replica(variable, std::move(request));
}

void check_number(const VariableState& variable, Write kind) {
  const Context& context = detail::current_context();
  STRATA_CHECK(
      !(context.replica && context.group == variable.group().get() &&
        variable.group()->num_replicas() > 1 && !variable.on_read() &&
        variable.options().aggregation == VariableAggregation::kSum),
      kInvalidArgument, "[variable] ", kWriteNames[static_cast<int>(kind)], ": '",
      variable.options().name,
      "' sums what its replicas write, and got a plain number, which cannot be reduced with "
      "the given reduce op; pass a tensor if the sum over replicas is meant");
}

at::Tensor scalar(double value) { return at::scalar_tensor(value, at::kDouble); }

/// In a trace the copy is made at once, and each run sees to it again that it is up to date: others
/// may have written the variable since. A step that is computed elsewhere makes it itself.
at::Tensor current_half_copy(const VariableState& state, int local, const at::Tensor& value) {
  if (state.group()->options().functions_only) return value.detach().to(at::kBFloat16);
  if (!graph::tracing()) return state.half_copy(local);
  at::Tensor copy;
  {
    const graph::NoTraceGuard no_trace;
    copy = state.half_copy(local);
  }
  if (graph::tracing_inference()) return copy;
  graph::call_host("strata::half_copy", {}, {},
                   [&state, local, copy](const std::vector<at::Tensor>&) {
                     STRATA_CHECK(state.half_copy(local).is_same(copy), kFailedPrecondition,
                                  "[variable] '", state.options().name,
                                  "': its copy in 16 bits is not the one that was recorded; "
                                  "compile the model again, or run the step eagerly");
                     return std::vector<at::Tensor>();
                   });
  return copy;
}

std::vector<at::Tensor> initial_copies(const ReplicaGroup& group, const at::Tensor& value,
                                       const VariableOptions& options) {
  const VariablePlacement& placement = group.placement();
  const bool one = !placement.has_copy_per_replica() && placement.may_share_storage(group) &&
                   options.synchronization != VariableSynchronization::kOnRead;
  std::vector<at::Tensor> replicas;
  for (int r = 0; r < group.num_local_replicas(); ++r) {
    replicas.push_back(one && r > 0
                           ? replicas[0].variable_data()
                           : value.detach().to(group.device(r).physical, value.scalar_type(),
                                               /*non_blocking=*/false, /*copy=*/true));
    replicas.back().set_requires_grad(options.trainable);
  }
  return replicas;
}

std::shared_ptr<VariableState> make_state(const at::Tensor& value, VariableOptions options) {
  const Context& context = detail::current_context();
  ReplicaGroup& group = *context.group;
  STRATA_CHECK(
      context.replica == nullptr || &group == detail::default_group().get(), kFailedPrecondition,
      "[variable] '", options.name,
      "' was made inside run(); expected variables to be made in the strategy's scope, before "
      "run(): each replica would make one of its own");
  STRATA_CHECK(value.defined(), kInvalidArgument, "[variable] '", options.name,
               "': got an undefined initial value");
  STRATA_CHECK(options.synchronization != VariableSynchronization::kNone, kInvalidArgument,
               "[variable] '", options.name,
               "': got VariableSynchronization::kNone, which is not "
               "defined under a strategy; use kAuto, kOnWrite or kOnRead");
  if (options.synchronization == VariableSynchronization::kOnRead) options.trainable = false;
  if (!value.is_floating_point() && !value.is_complex()) options.trainable = false;
  const at::Tensor agreed = detail::initial_value(group, value, options.name);
  return std::make_shared<VariableState>(group.shared_from_this(), options,
                                         initial_copies(group, agreed, options));
}

}  // namespace

Variable::Variable(const at::Tensor& initial_value, VariableOptions options)
    : state_(make_state(initial_value, std::move(options))) {}

at::Tensor Variable::value() const {
  const Context& context = detail::current_context();
  const VariableState& state = *state_;
  const bool plain = state.group() == detail::default_group();
  if (context.replica && context.group == state.group().get()) {
    return state.replicas()[static_cast<size_t>(context.replica->local_replica())];
  }
  STRATA_CHECK(!context.replica || plain || context.group == detail::default_group().get(),
               kFailedPrecondition, "[variable] value: '", name(), "' belongs to ",
               state.group()->name(), " and was read by a replica of ", context.group->name(),
               "; Mixing different tf.distribute.Strategy objects is not possible");
  const ReplicaGroup& group = *state.group();
  group.refresh();
  if (!state.on_read() || group.num_replicas() == 1) return state.central();
  // The others are somewhere else, and a checkpoint is to bring the value.
  if (group.options().late_joiner) return state.replicas()[0].clone();
  if (const at::Tensor* known = detail::CoalescedRead::value_of(state)) return known->clone();
  const std::string what = str_cat("value of '", name(), "'");
  switch (state.options().aggregation) {
    case VariableAggregation::kOnlyFirstReplica:
      return group.communicator() ? detail::first_of_group(group, state.replicas()[0], what)
                                  : state.replicas()[0].clone();
    case VariableAggregation::kSum:
      return detail::reduce_over_group(group, state.replicas(), ReduceOp::kSum, what);
    case VariableAggregation::kMean:
      return detail::reduce_over_group(group, state.replicas(), ReduceOp::kMean, what);
    case VariableAggregation::kNone:
      break;
  }
  detail::throw_error(
      ErrorCode::kInvalidArgument,
      str_cat("[variable] value: '", name(),
              "' has one value per replica and no aggregation; read it inside run(), "
              "use on_replica(i), or give it an aggregation"));
}

at::Tensor Variable::value_as(at::ScalarType dtype) const {
  const at::Tensor value = this->value();
  if (value.scalar_type() == dtype) return value;
  const VariableState& state = *state_;
  const bool has_copy = dtype == at::kBFloat16 && value.scalar_type() == at::kFloat &&
                        value.is_cpu() && state.options().trainable && !state.on_read() &&
                        !state.has_mirrors() && state.group()->placement().store() == nullptr;
  // What parameter servers send is written without a new version, so there values are cast.
  if (!has_copy) return value.to(dtype);
  const Context& context = detail::current_context();
  const bool own = context.replica && context.group == state.group().get();
  const int local = own ? context.replica->local_replica() : 0;
  return kernels::as_cast_of(current_half_copy(state, local, value), value);
}

const at::Tensor& Variable::on_replica(int local) const {
  STRATA_CHECK(local >= 0 && local < static_cast<int>(state_->replicas().size()), kOutOfRange,
               "[variable] on_replica: got ", local, " for '", name(), "'; expected 0 to ",
               state_->replicas().size() - 1);
  return state_->replicas()[static_cast<size_t>(local)];
}

void Variable::assign(const at::Tensor& value) {
  write(*state_, {state_.get(), Write::kAssign, {}, value});
}
void Variable::assign_add(const at::Tensor& value) {
  write(*state_, {state_.get(), Write::kAdd, {}, value});
}
void Variable::assign_sub(const at::Tensor& value) {
  write(*state_, {state_.get(), Write::kSub, {}, value});
}

void Variable::assign(double value) {
  check_number(*state_, Write::kAssign);
  assign(scalar(value));
}
void Variable::assign_add(double value) {
  check_number(*state_, Write::kAdd);
  assign_add(scalar(value));
}
void Variable::assign_sub(double value) {
  check_number(*state_, Write::kSub);
  assign_sub(scalar(value));
}

void Variable::scatter_add(const at::Tensor& indices, const at::Tensor& updates) {
  write(*state_, {state_.get(), Write::kScatterAdd, indices, updates});
}

const std::string& Variable::name() const { return state_->options().name; }
bool Variable::trainable() const { return state_->options().trainable; }
VariableSynchronization Variable::synchronization() const {
  return state_->options().synchronization;
}
VariableAggregation Variable::aggregation() const { return state_->options().aggregation; }
at::IntArrayRef Variable::sizes() const { return state_->replicas()[0].sizes(); }
at::ScalarType Variable::dtype() const { return state_->replicas()[0].scalar_type(); }
int64_t Variable::numel() const { return state_->replicas()[0].numel(); }
ReplicaGroup& Variable::group() const { return *state_->group(); }

namespace detail {

VariableState::VariableState(std::shared_ptr<ReplicaGroup> group, VariableOptions options,
                             std::vector<at::Tensor> replicas)
    : group_(std::move(group)),
      options_(std::move(options)),
      replicas_(std::move(replicas)),
      half_copies_(std::make_unique<HalfCopy>()) {
  STRATA_DCHECK(static_cast<int>(replicas_.size()) == group_->num_local_replicas());
  if (!on_read()) {
    VariablePlacement::Copies copies = group_->placement().place(*group_, replicas_);
    central_ = std::move(copies.central);
    shares_storage_ = copies.one_storage;
  }
  for (const at::Tensor& replica : replicas_) {
    expected_versions_.push_back(replica._version());
  }
  group_->add(this);
}

VariableState::~VariableState() { group_->remove(this); }

bool VariableState::is_replicated() const {
  return has_bound_storage() && group_->placement().may_share_storage(*group_);
}

at::Tensor VariableState::half_copy(int local) const {
  return half_copies_->read(replicas_, local, shares_storage_);
}

void VariableState::move_to(int local, const at::Tensor& tensor) {
  at::Tensor& own = replicas_[static_cast<size_t>(local)];
  tensor.set_data(own.variable_data());
  own = tensor;
  record_version(local);
}

void VariableState::reshape() {
  const at::NoGradGuard no_grad;
  const auto count = static_cast<size_t>(group_->num_local_replicas());
  const at::Tensor first = replicas_[0];
  if (count < replicas_.size()) replicas_.resize(count);
  while (replicas_.size() < count) {
    const at::Device device = group_->device(static_cast<int>(replicas_.size())).physical;
    at::Tensor copy = shares_storage_ ? first.variable_data()
                                      : first.detach().to(device, first.scalar_type(),
                                                          /*non_blocking=*/false, /*copy=*/true);
    replicas_.push_back(copy.set_requires_grad(first.requires_grad()));
  }
  expected_versions_.assign(count, 0);
  for (size_t r = 0; r < count; ++r) expected_versions_[r] = replicas_[r]._version();
}

void VariableState::bind_storage(const std::vector<at::Tensor>& homes, bool shared,
                                 std::shared_ptr<void> keep) {
  STRATA_DCHECK(homes.size() == replicas_.size());
  const at::NoGradGuard no_grad;
  for (size_t r = 0; r < homes.size(); ++r) {
    if (r == 0 || !shared) at::Tensor(homes[r]).copy_(replicas_[r].detach());
    replicas_[r].set_data(homes[r]);
    expected_versions_[r] = replicas_[r]._version();
  }
  home_ = std::move(keep);
  shares_storage_ = shared;
}

void VariableState::bump_version() {
  if (has_mirrors()) {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& replica : replicas_) {
      if (!replica.is_alias_of(central_)) replica.detach().copy_(central_);
    }
  }
  for (size_t r = 0; r < replicas_.size(); ++r) {
    replicas_[r].unsafeGetTensorImpl()->bump_version();
    expected_versions_[r] = replicas_[r]._version();
  }
}

void VariableState::broadcast_external_write() {
  if (!is_replicated() || shares_storage_) return;
  for (size_t changed = 0; changed < replicas_.size(); ++changed) {
    if (replicas_[changed]._version() == static_cast<int64_t>(expected_versions_[changed]))
      continue;
    const at::NoGradGuard no_grad;
    for (size_t r = 0; r < replicas_.size(); ++r) {
      if (r != changed) replicas_[r].detach().copy_(replicas_[changed].detach());
    }
    return bump_version();
  }
}

void VariableState::record_version(int replica) {
  expected_versions_[static_cast<size_t>(replica)] =
      replicas_[static_cast<size_t>(replica)]._version();
}

void VariableState::check_version(int replica) const {
  // Outside every strategy no run tells between from inside, and nothing is shared.
  if (group_ == default_group()) return;
  STRATA_CHECK(
      replicas_[static_cast<size_t>(replica)]._version() ==
          static_cast<int64_t>(expected_versions_[static_cast<size_t>(replica)]),
      kFailedPrecondition, "[variable] '", options_.name,
      "' was changed in place inside run() by replica ", replica,
      "; replicas share parameters, so only an optimizer or Variable::assign may change them "
      "there; change them outside run()");
}

}  // namespace detail
}  // namespace strata
