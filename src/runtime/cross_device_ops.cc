#include "strata/runtime/cross_device_ops.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <set>

#include "collective/in_process/in_process.h"
#include "runtime/group_exchange.h"
#include "runtime/nccl_available.h"
#include "tensor/tree_sum.h"

namespace strata {
namespace {

using Values = PerReplica<at::Tensor>;

void check_equal(std::string_view call, const Values& values) {
  STRATA_CHECK(values.size() > 0, kInvalidArgument, "[cross_device_ops] ", call,
               ": got no values; expected one per replica");
  const at::Tensor& first = values.get(0);
  for (const at::Tensor& value : values) detail::check_value("cross_device_ops", call, value);
  for (int i = 1; i < values.size(); ++i) {
    const at::Tensor& other = values.get(i);
    STRATA_CHECK(other.sizes() == first.sizes() && other.scalar_type() == first.scalar_type(),
                 kInvalidArgument, "[cross_device_ops] ", call, ": got ", first.scalar_type(), " ",
                 first.sizes(), " on replica 0 and ", other.scalar_type(), " ", other.sizes(),
                 " on replica ", i, "; expected equal shapes and dtypes");
    STRATA_CHECK(other.layout() == first.layout(), kInvalidArgument, "[cross_device_ops] ", call,
                 ": got layouts ", first.layout(), " on replica 0 and ", other.layout(),
                 " on replica ", i, "; expected one layout: pass value.to_dense() everywhere");
  }
}

void check_result(const Values& values, const Values& result) {
  STRATA_CHECK(result.size() == values.size(), kInternal, "[cross_device_ops] reduce: got ",
               result.size(), " results for ", values.size(), " replicas; return one per replica");
  for (int i = 0; i < values.size(); ++i) {
    STRATA_CHECK(result.get(i).defined() && result.get(i).sizes() == values.get(i).sizes(),
                 kInternal,
                 "[cross_device_ops] reduce: got a result of another shape than the value's ",
                 values.get(i).sizes(), " for replica ", i, "; return the shape of the value");
  }
}

Values to_devices_of(const at::Tensor& result, const Values& values) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& value : values) copies.push_back(result.to(value.device()));
  return Values(std::move(copies));
}

void check_packs(std::string_view type, const PackingOptions& options) {
  STRATA_CHECK(options.num_packs >= 0, kInvalidArgument, "[", type, "] num_packs: got ",
               options.num_packs, "; expected 0 (no packing) or more");
}

}  // namespace

CrossDeviceOps::~CrossDeviceOps() = default;

Values CrossDeviceOps::reduce(ReduceOp op, const Values& values) {
  check_equal("reduce", values);
  Values result = do_reduce(op, values);
  check_result(values, result);
  return result;
}

std::vector<Values> CrossDeviceOps::batch_reduce(ReduceOp op, const std::vector<Values>& values) {
  for (const Values& each : values) check_equal("batch_reduce", each);
  std::vector<Values> results = do_batch_reduce(op, values);
  STRATA_CHECK(results.size() == values.size(), kInternal, "[cross_device_ops] batch_reduce: got ",
               results.size(), " results for ", values.size(), " values; return one per value");
  for (size_t i = 0; i < values.size(); ++i) check_result(values[i], results[i]);
  return results;
}

Values CrossDeviceOps::broadcast(const at::Tensor& value,
                                 const std::vector<LogicalDevice>& devices) {
  return do_broadcast(value, devices);
}

std::vector<Values> CrossDeviceOps::do_batch_reduce(ReduceOp op,
                                                    const std::vector<Values>& values) {
  std::vector<Values> results;
  for (const Values& each : values) results.push_back(do_reduce(op, each));
  return results;
}

Values CrossDeviceOps::do_broadcast(const at::Tensor& value,
                                    const std::vector<LogicalDevice>& devices) {
  std::vector<at::Tensor> copies;
  for (const LogicalDevice& device : devices) {
    copies.push_back(value.to(device.physical, /*non_blocking=*/false, /*copy=*/true));
  }
  return Values(std::move(copies));
}

Values ReductionToOneDevice::do_reduce(ReduceOp op, const Values& values) {
  const c10::Device device = options_.reduce_to_device.empty()
                                 ? values.get(0).device()
                                 : find_device(options_.reduce_to_device).physical;
  std::vector<at::Tensor> here;
  for (const at::Tensor& value : values) here.push_back(value.to(device));
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kMean;
  at::Tensor result;
  if (options_.accumulation_fn && adds) {
    result = options_.accumulation_fn(here);
    if (op == ReduceOp::kMean) result = result.div(static_cast<double>(values.size()));
  } else {
    result = collective::reduce_in_order(here, op);
  }
  return to_devices_of(result, values);
}

std::vector<Values> ReductionToOneDevice::do_batch_reduce(ReduceOp op,
                                                          const std::vector<Values>& values) {
  const bool pack = !options_.accumulation_fn && std::ranges::all_of(values, [&](const Values& v) {
    return v.get(0).is_cuda() && v.get(0).scalar_type() == values[0].get(0).scalar_type();
  });
  return detail::reduce_packed(values, pack ? 1 : 0,
                               [&](const Values& each) { return do_reduce(op, each); });
}

HierarchicalCopyAllReduce::HierarchicalCopyAllReduce(PackingOptions options) : options_(options) {
  check_packs("hierarchical_copy_all_reduce", options);
}

Values HierarchicalCopyAllReduce::do_reduce(ReduceOp op, const Values& values) {
  if (values.size() == 1) return Values(values.values());
  // The halves are the two subtrees of the fixed order, so the bits are those of every other
  // algorithm.
  const auto& all = values.values();
  const auto middle = all.begin() + tensor::tree_left_count(values.size());
  const bool mean = op == ReduceOp::kMean;
  const ReduceOp within = mean ? ReduceOp::kSum : op;
  const size_t turn = next_device_++;
  const auto sum_half = [&](auto first, auto last) {
    const c10::Device main =
        (first + static_cast<long>(turn % static_cast<size_t>(last - first)))->device();
    std::vector<at::Tensor> half;
    for (auto value = first; value != last; ++value) half.push_back(value->to(main));
    return collective::reduce_in_order(half, within);
  };
  const at::Tensor left = sum_half(all.begin(), middle);
  const at::Tensor right = sum_half(middle, all.end());
  at::Tensor result = collective::reduce_in_order({left, right.to(left.device())}, within);
  if (mean) result = result.div(static_cast<double>(values.size()));
  return to_devices_of(result, values);
}

std::vector<Values> HierarchicalCopyAllReduce::do_batch_reduce(ReduceOp op,
                                                               const std::vector<Values>& values) {
  return detail::reduce_packed(values, options_.num_packs,
                               [&](const Values& pack) { return do_reduce(op, pack); });
}

std::shared_ptr<CrossDeviceOps> choose_cross_device_ops(const std::vector<LogicalDevice>& devices) {
  bool all_cpu = true;
  std::set<int> gpus;
  for (const LogicalDevice& device : devices) {
    all_cpu = all_cpu && device.physical.is_cpu();
    if (device.physical.is_cuda()) gpus.insert(device.physical.index());
  }
  if (all_cpu) return nullptr;
  const bool distinct_gpus = gpus.size() == devices.size();
  if (distinct_gpus && gpus.size() > 1 && nccl_available())
    return std::make_shared<NcclAllReduce>();
  return std::make_shared<ReductionToOneDevice>();
}

namespace detail {

std::vector<int64_t> pack_borders(int64_t total, int num_packs) {
  std::vector<int64_t> borders;
  for (int i = 0; i < num_packs; ++i) borders.push_back(total / num_packs * i);
  borders.push_back(total);
  return borders;
}

std::vector<Values> reduce_packed(const std::vector<Values>& values, int num_packs,
                                  const std::function<Values(const Values&)>& reduce) {
  if (values.empty()) return {};
  const int replicas = values[0].size();
  for (const Values& each : values) {
    STRATA_CHECK(!each.get(0).is_sparse(), kInvalidArgument,
                 "[cross_device_ops] batch_reduce: got sparse tensors, which are not packed; pass "
                 "them to reduce, or value.to_dense()");
    STRATA_CHECK(each.get(0).scalar_type() == values[0].get(0).scalar_type(), kInvalidArgument,
                 "[cross_device_ops] batch_reduce: got ", values[0].get(0).scalar_type(), " and ",
                 each.get(0).scalar_type(),
                 " in one batch; a pack holds one dtype: make a batch of each");
  }
  if (num_packs == 0) {
    std::vector<Values> results;
    for (const Values& each : values) results.push_back(reduce(each));
    return results;
  }

  std::vector<at::Tensor> flat;  // per replica: all its values, one after the other
  for (int r = 0; r < replicas; ++r) {
    std::vector<at::Tensor> parts;
    for (const Values& each : values) parts.push_back(each.get(r).reshape({-1}));
    flat.push_back(at::cat(parts));
  }
  const std::vector<int64_t> borders = pack_borders(flat[0].numel(), num_packs);
  std::vector<std::vector<at::Tensor>> reduced(static_cast<size_t>(replicas));
  for (size_t p = 0; p + 1 < borders.size(); ++p) {
    if (borders[p] == borders[p + 1]) continue;
    std::vector<at::Tensor> pack;
    for (const at::Tensor& each : flat) {
      pack.push_back(each.narrow(0, borders[p], borders[p + 1] - borders[p]));
    }
    const Values result = reduce(Values(std::move(pack)));
    for (int r = 0; r < replicas; ++r) reduced[static_cast<size_t>(r)].push_back(result.get(r));
  }

  std::vector<Values> results;
  std::vector<at::Tensor> joined;
  for (const auto& packs : reduced) {
    joined.push_back(packs.empty()       ? flat[0].narrow(0, 0, 0)
                     : packs.size() == 1 ? packs[0]
                                         : at::cat(packs));
  }
  int64_t begin = 0;
  for (const Values& each : values) {
    std::vector<at::Tensor> parts;
    for (int r = 0; r < replicas; ++r) {
      parts.push_back(joined[static_cast<size_t>(r)]
                          .narrow(0, begin, each.get(r).numel())
                          .view(each.get(r).sizes()));
    }
    begin += each.get(0).numel();
    results.emplace_back(std::move(parts));
  }
  return results;
}

}  // namespace detail
}  // namespace strata
