#include "strata/strategies/strategy.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/scalar_tensor.h>

#include "collective/in_process/in_process.h"
#include "runtime/context.h"
#include "runtime/group_agreement.h"
#include "runtime/group_exchange.h"
#include "runtime/replica_group.h"
#include "runtime/replica_group_owner.h"
#include "runtime/verify_replicas.h"
#include "strata/runtime/cross_device_ops.h"

namespace strata {
namespace {

void check_count(const Strategy& strategy, std::string_view call, int count) {
  const int replicas = strategy.group().num_local_replicas();
  STRATA_CHECK(count == replicas, kInvalidArgument, "[", strategy.name(), "] ", call, ": got ",
               count, " values for ", replicas, " replicas",
               replicas < strategy.group().num_replicas() ? " of this process" : "",
               "; pass one per replica (PerReplica)");
}

/// Along `axis`, and over the replicas that have something there.
at::Tensor extreme(const ReplicaGroup& group, ReduceOp op, const std::vector<at::Tensor>& values,
                   int64_t axis) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& value : values) {
    if (value.size(axis) == 0) {
      parts.emplace_back();
    } else {
      parts.push_back(op == ReduceOp::kMin ? value.amin(axis) : value.amax(axis));
    }
  }
  // Gathered: a process whose replicas have nothing could not say what shape the others' has.
  return collective::reduce_in_order(detail::gather_over_group(group, parts, "reduce"), op);
}

std::vector<at::Tensor> on_host(const ReplicaGroup& group, const PerReplica<at::Tensor>& value) {
  std::vector<at::Tensor> values;
  for (const at::Tensor& each : value) {
    detail::check_value(group.name(), "reduce", each);
    values.push_back(each.cpu());
  }
  return values;
}

/// The way in which values of replicas are added.
std::string sums_of(const ReplicaGroup& group) {
  if (group.num_replicas() == 1) return "none";
  if (group.communicator() != nullptr) return group.communicator()->describe();
  const CrossDeviceOps* const ops = group.cross_device_ops();
  if (ops == nullptr) return "in shared memory, in tree order";
  if (dynamic_cast<const NcclAllReduce*>(ops) != nullptr) return "NcclAllReduce";
  if (dynamic_cast<const HierarchicalCopyAllReduce*>(ops) != nullptr) {
    return "HierarchicalCopyAllReduce";
  }
  if (dynamic_cast<const ReductionToOneDevice*>(ops) != nullptr) return "ReductionToOneDevice";
  return "CrossDeviceOps of your own";
}

at::Tensor reduce_axis(const ReplicaGroup& group, ReduceOp op,
                       const std::vector<at::Tensor>& values, int64_t axis) {
  const int64_t rank = values[0].dim();
  const bool ordered = op == ReduceOp::kMin || op == ReduceOp::kMax;
  for (const at::Tensor& value : values) {
    STRATA_CHECK(!value.is_sparse(), kInvalidArgument, "[", group.name(),
                 "] reduce: got a sparse tensor and an axis; pass value.to_dense()");
    STRATA_CHECK(!ordered || !value.is_complex(), kInvalidArgument, "[", group.name(),
                 "] reduce: got ", reduce_op_name(op), " of ", value.scalar_type(),
                 ", which has no order; expected SUM or MEAN");
    STRATA_CHECK(value.dim() == rank && axis >= -rank && axis < rank, kInvalidArgument, "[",
                 group.name(), "] reduce: got axis ", axis, " for a value of rank ", value.dim(),
                 "; expected -rank <= axis < rank, and equal ranks; scalars have no axis");
  }
  if (ordered) return extreme(group, op, values, axis);
  std::vector<at::Tensor> counts;
  std::vector<at::Tensor> sums;
  for (const at::Tensor& value : values) {
    counts.push_back(at::scalar_tensor(value.size(axis), at::kLong));
    sums.push_back(value.sum(axis));
  }
  const at::Tensor sum = detail::reduce_over_group(group, sums, ReduceOp::kSum, "reduce");
  if (op == ReduceOp::kSum) return sum;
  // One denominator for all replicas: not the mean of means.
  const at::Tensor count = detail::reduce_over_group(group, counts, ReduceOp::kSum, "reduce");
  return sum.div(static_cast<double>(count.item<int64_t>()));
}

}  // namespace

void Strategy::require_own(std::string_view call) const {
  detail::require_cross_replica(call);
  detail::require_unmixed(*group_, call);
}

void Strategy::require_runnable(bool is_function) const {
  STRATA_CHECK(
      is_function || !group_->options().functions_only, kFailedPrecondition, "[", name(),
      "] run: got a function of the program, and its replicas run graphs alone (client = "
      "\"standalone\", TPUStrategy); pass it as strategy.run(strata::function(step), ...), made "
      "once");
}

Strategy::Strategy(ReplicaGroupOptions options)
    : Strategy(std::make_shared<ReplicaGroup>(std::move(options))) {}

/// The strategy as its group knows it.
class Strategy::Owner final : public ReplicaGroupOwner {
 public:
  explicit Owner(Strategy& strategy) : strategy_(strategy) {}
  Strategy& strategy() const { return strategy_; }

 private:
  Status do_step_failed(const Status& status, const std::string& when) override {
    return strategy_.do_step_failed(status, when);
  }
  void do_mend() override { strategy_.do_mend(); }
  void do_refresh() override { strategy_.do_refresh(); }
  std::shared_ptr<StopConsensus> do_make_stop_consensus() override {
    return strategy_.do_make_stop_consensus();
  }

  Strategy& strategy_;
};

Strategy::Strategy(std::shared_ptr<ReplicaGroup> group)
    : group_(std::move(group)), owner_(std::make_unique<Owner>(*this)) {
  group_->set_owner(owner_.get());
}

Strategy::~Strategy() { group_->set_owner(nullptr); }

Status Strategy::do_step_failed(const Status& status, const std::string&) { return status; }

std::shared_ptr<StopConsensus> Strategy::do_make_stop_consensus() { return nullptr; }

Strategy* Strategy::owner_of(const ReplicaGroup& group) {
  auto* const owner = dynamic_cast<Owner*>(group.owner());
  return owner == nullptr ? nullptr : &owner->strategy();
}

int Strategy::num_replicas_in_sync() const { return group_->num_replicas_in_sync(); }

const std::string& Strategy::name() const { return group_->name(); }

int Strategy::num_local_replicas() const { return group_->num_local_replicas(); }

int Strategy::replica_id(int local) const { return group_->replica_id(local); }

void Strategy::run_replicas(const std::function<void(ReplicaContext&)>& body) { group_->run(body); }

std::shared_ptr<void> Strategy::enter_scope() const {
  detail::require_cross_replica("scope");
  const detail::Context& context = detail::current_context();
  STRATA_CHECK(context.group == group_.get() || context.group == detail::default_group().get(),
               kFailedPrecondition, "[", name(), "] scope: entered inside the scope of ",
               context.group->name(),
               "; Mixing different tf.distribute.Strategy objects is not possible");
  return std::make_shared<detail::ContextGuard>(
      group_ == detail::default_group() ? context : detail::Context{group_.get(), nullptr});
}

at::Tensor Strategy::reduce(ReduceOp op, const PerReplica<at::Tensor>& value,
                            std::optional<int64_t> axis) const {
  require_own("reduce");
  check_count(*this, "reduce", value.size());
  if (axis) return reduce_axis(*group_, op, on_host(*group_, value), *axis);
  return detail::reduce_over_group(*group_, on_host(*group_, value), op, "reduce");
}

double Strategy::reduce(ReduceOp op, const PerReplica<double>& value) const {
  std::vector<at::Tensor> values;
  for (const double each : value) values.push_back(at::scalar_tensor(each, at::kDouble));
  return reduce(op, PerReplica(std::move(values))).item<double>();
}

int64_t Strategy::reduce(ReduceOp op, const PerReplica<int64_t>& value) const {
  STRATA_CHECK(
      op != ReduceOp::kMean, kInvalidArgument, "[", name(),
      "] reduce: got MEAN of integers, which is a float; pass PerReplica<double> or tensors");
  std::vector<at::Tensor> values;
  for (const int64_t each : value) values.push_back(at::scalar_tensor(each, at::kLong));
  return reduce(op, PerReplica(std::move(values))).item<int64_t>();
}

at::Tensor Strategy::reduce(ReduceOp op, const at::Tensor& value,
                            std::optional<int64_t> axis) const {
  require_own("reduce");
  detail::check_value(name(), "reduce", value);
  const std::vector<at::Tensor> copies(static_cast<size_t>(group_->num_local_replicas()),
                                       value.cpu());
  if (axis) return reduce_axis(*group_, op, copies, *axis);
  const int replicas = group_->num_replicas();
  STRATA_CHECK(op != ReduceOp::kSum || replicas == 1, kInvalidArgument, "[", name(),
               "] reduce: a value that is the same on all ", replicas,
               " replicas cannot be reduced with the given reduce op SUM; pass what run() returned "
               "(PerReplica), or use MEAN");
  return copies[0];
}

at::Tensor Strategy::reduce(ReduceOp op, const Variable& variable) const {
  STRATA_CHECK(op == ReduceOp::kMean || group_->num_replicas() == 1, kInvalidArgument, "[", name(),
               "] reduce: got ", reduce_op_name(op), " of variable '", variable.name(),
               "', whose copies are equal; use MEAN, or value()");
  return variable.value().detach().cpu();
}

at::Tensor Strategy::gather(const PerReplica<at::Tensor>& value, int64_t axis) const {
  require_own("gather");
  check_count(*this, "gather", value.size());
  std::vector<at::Tensor> values;
  for (const at::Tensor& each : value) {
    detail::check_value(name(), "gather", each);
    values.push_back((each.is_sparse() ? each.to_dense() : each).cpu());
  }
  values = detail::gather_over_group(*group_, values, "gather");
  const at::Tensor& first = values[0];
  for (const at::Tensor& each : values) {
    STRATA_CHECK(axis >= 0 && axis < each.dim(), kInvalidArgument, "[", name(),
                 "] gather: got axis ", axis, " for a value of rank ", each.dim(),
                 "; expected 0 <= axis < rank; scalars have no axis: reshape to [1]");
    bool fits = each.dim() == first.dim() && each.scalar_type() == first.scalar_type();
    for (int64_t d = 0; fits && d < each.dim(); ++d)
      fits = d == axis || each.size(d) == first.size(d);
    STRATA_CHECK(fits, kInvalidArgument, "[", name(), "] gather: got ", first.scalar_type(), " ",
                 first.sizes(), " and ", each.scalar_type(), " ", each.sizes(),
                 "; expected equal dtypes, and shapes that differ only along axis ", axis);
  }
  return at::cat(values, axis);
}

std::vector<at::Tensor> Strategy::all_results(const PerReplica<at::Tensor>& value) const {
  require_own("all_results");
  check_count(*this, "all_results", value.size());
  std::vector<at::Tensor> values;
  for (const at::Tensor& each : value) {
    detail::check_value(name(), "all_results", each);
    values.push_back((each.is_sparse() ? each.to_dense() : each).detach().cpu());
  }
  return detail::gather_over_group(*group_, values, "all_results");
}

std::string Strategy::describe() const {
  std::string devices;
  for (int local = 0; local < group_->num_local_replicas(); ++local) {
    devices += (local > 0 ? ", " : "") + group_->device(local).name;
  }
  return str_cat(name(), ": ", num_replicas_in_sync(), " replicas, here on ", devices,
                 "; sums: ", sums_of(*group_), "\n");
}

void Strategy::verify_replicas(const std::vector<Variable>& variables) const {
  require_own("verify_replicas");
  detail::verify_replicas(*group_, variables);
}

DistributedDataset Strategy::distribute(data::Dataset dataset, const InputOptions& options) {
  require_own("distribute");
  return DistributedDataset(group_, std::move(dataset), options, /*whole_batches=*/false);
}

DistributedDataset Strategy::distribute_from_function(
    const std::function<data::Dataset(const InputContext&)>& fn, const InputOptions& options) {
  require_own("distribute_from_function");
  const Workers workers = group_->workers();
  const InputContext context{.num_input_pipelines = workers.count,
                             .input_pipeline_id = workers.index,
                             .num_replicas_in_sync = num_replicas_in_sync()};
  return DistributedDataset(group_, fn(context), options, /*whole_batches=*/true);
}

bool Strategy::is_chief() const { return detail::is_chief(*group_); }

Strategy& detail::strategy_of(const ReplicaGroup& group) {
  Strategy* const strategy = Strategy::owner_of(group);
  STRATA_CHECK(strategy, kFailedPrecondition, "[", group.name(),
               "] strategy: the strategy of this replica context no longer exists");
  return *strategy;
}

Strategy& get_strategy() {
  Strategy* const strategy = Strategy::owner_of(*detail::current_context().group);
  return strategy ? *strategy : default_strategy();
}

bool has_strategy() { return detail::current_context().group != detail::default_group().get(); }

}  // namespace strata
