#include "strategies/standalone/remote_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/describe_node.h"
#include "strata/core/error.h"
#include "strata/tensor/fingerprint.h"

namespace strata::standalone {
namespace {

/// All elements of a tensor's memory.
at::Tensor whole_memory(const at::Tensor& tensor) {
  const auto elements = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
  return tensor.detach().as_strided({elements}, {1}, 0);
}

const void* storage_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

}  // namespace

// --- What steps bring

void RemoteState::roll_back(const Mark& mark) {
  tensors_.resize(mark.tensors);
  updates_.resize(mark.updates);
  update_specs_.resize(mark.updates);
  memories_ = mark.memories;
}

/// Of one value on all replicas, as the graphs of one program have it.
size_t RemoteState::memory_of(const Traces& traces, size_t value) {
  std::vector<const void*> key;
  for (const auto& trace : traces) key.push_back(storage_of(trace->graph.values[value].tensor));
  const auto [found, is_new] = memories_.emplace(key, tensors_.size());
  if (!is_new) return found->second;
  Tensor added;
  for (const auto& trace : traces) {
    added.replicas.push_back(whole_memory(trace->graph.values[value].tensor));
  }
  const at::Tensor& first = added.replicas[0];
  for (const at::Tensor& each : added.replicas) {
    STRATA_CHECK(each.sizes() == first.sizes() && each.scalar_type() == first.scalar_type(),
                 kUnimplemented, "[standalone] replicas read tensors of different sizes, ",
                 first.sizes(), " and ", each.sizes(), "; make them equal");
  }
  const bool one = std::ranges::all_of(key, [&](const void* each) { return each == key[0]; });
  added.spec = {.name = "tensor",
                .dtype = static_cast<uint64_t>(first.scalar_type()),
                .sizes = first.sizes().vec(),
                .strides = {1},
                .trained = false,
                .shared = one && key.size() > 1};
  tensors_.push_back(std::move(added));
  return found->second;
}

graph::remote::StatePlace RemoteState::place_of(const Traces& traces, size_t value, int replica) {
  const graph::Graph& graph = traces[static_cast<size_t>(replica)]->graph;
  const graph::Value& read = graph.values[value];
  graph::remote::StatePlace place{-1, read.tensor.storage_offset()};
  for (size_t i = 0; i < tensors_.size() && place.state < 0; ++i) {
    if (!tensors_[i].variable) continue;
    const at::Tensor& variable = tensors_[i].variable->on_replica(replica);
    if (storage_of(variable) != storage_of(read.tensor)) continue;
    const int64_t offset = read.tensor.storage_offset() - variable.storage_offset();
    if (offset < 0 || offset >= std::max<int64_t>(variable.numel(), 1)) continue;
    place = {static_cast<int64_t>(i), offset};
  }
  if (place.state < 0) place.state = static_cast<int64_t>(memory_of(traces, value));
  Tensor& tensor = tensors_[static_cast<size_t>(place.state)];
  tensor.constant = read.kind == graph::ValueKind::kConstant;
  tensor.written = tensor.written || read.kind == graph::ValueKind::kState;
  STRATA_CHECK(!tensor.written || !tensor.spec.shared, kUnimplemented, "[standalone] ", graph.name,
               ": all replicas write one tensor, of ", read.dtype, " ", at::IntArrayRef(read.sizes),
               "; make it a Variable, or a buffer of a module that Strategy::replicate makes");
  return place;
}

size_t RemoteState::update_of(const graph::Node& node) {
  const auto update = std::dynamic_pointer_cast<optimizers::ShippedUpdate>(node.subject.lock());
  STRATA_CHECK(update != nullptr, kUnimplemented, "[standalone] the step has the node ", node.name,
               graph::describe_place(node),
               ", which servers cannot do; docs/standalone.md lists what they do");
  const auto known = std::ranges::find(updates_, update);
  if (known != updates_.end()) return static_cast<size_t>(known - updates_.begin());
  const std::string why = update->why_not_shipped();
  STRATA_CHECK(why.empty(), kUnimplemented,
               "[standalone] an optimizer cannot be sent to a server: ", why);
  UpdateSpec spec{.options = update->shipped_options().dump(), .variables = {}};
  for (const Variable& variable : update->shipped_variables()) {
    const at::Tensor& tensor = variable.on_replica(0);
    const bool sent = std::ranges::any_of(
        memories_, [&](const auto& known) { return known.first[0] == storage_of(tensor); });
    STRATA_CHECK(!sent, kFailedPrecondition, "[standalone] '", variable.name(),
                 "' was read by a function that ran before the first one that trains it; call that "
                 "one first, so that the servers have one tensor for both");
    spec.variables.push_back(static_cast<int64_t>(tensors_.size()));
    tensors_.push_back({.spec = {.name = variable.name(),
                                 .dtype = static_cast<uint64_t>(tensor.scalar_type()),
                                 .sizes = tensor.sizes().vec(),
                                 .strides = tensor.strides().vec(),
                                 .trained = true,
                                 .shared = false},
                        .variable = variable,
                        .written = true});
  }
  updates_.push_back(update);
  update_specs_.push_back(std::move(spec));
  return updates_.size() - 1;
}

std::vector<StateSpec> RemoteState::tensor_specs() const {
  std::vector<StateSpec> specs;
  for (const Tensor& tensor : tensors_) specs.push_back(tensor.spec);
  return specs;
}

/// What a worker has of a tensor: one, or one a replica of its own.
std::vector<at::Tensor> RemoteState::values_on(size_t worker, const Tensor& tensor) const {
  if (tensor.variable) return {tensor.variable->on_replica(0).detach()};
  const size_t per_worker = servers_.replicas_per_worker();
  const auto begin = tensor.replicas.begin() + static_cast<int64_t>(worker * per_worker);
  return {begin, begin + static_cast<int64_t>(tensor.spec.shared ? 1 : per_worker)};
}

void RemoteState::send_new(const std::vector<Reply>& replies) {
  for (size_t i = 0; i < servers_.num_workers(); ++i) {
    std::vector<at::Tensor> elements;
    for (auto t = static_cast<size_t>(replies[i].states); t < tensors_.size(); ++t) {
      const std::vector<at::Tensor> values = values_on(i, tensors_[t]);
      elements.insert(elements.end(), values.begin(), values.end());
    }
    ServerConnections::Server& worker = servers_.workers()[i];
    worker.transfer.send(*worker.connection, elements);
  }
  servers_.wait_for_transfers();
}

void RemoteState::make_equal(const Mark& mark, const Reply& reply) {
  const bool has_run = servers_.runs() > 0;
  std::vector<size_t> known_tensors, known_updates, tensors, updates;
  for (size_t t = mark.tensors; t < tensors_.size(); ++t) {
    if (tensors_[t].constant || static_cast<int64_t>(t) >= reply.states) continue;
    (has_run ? known_tensors : tensors).push_back(t);
  }
  for (size_t u = mark.updates; u < updates_.size(); ++u) {
    const bool known = has_run && static_cast<int64_t>(u) < reply.updates;
    (known ? known_updates : updates).push_back(u);
  }
  fetch(known_tensors, known_updates);
  push(tensors, updates);
  for (size_t t = mark.tensors; t < tensors_.size(); ++t) note_equal(tensors_[t]);
}

// --- What has changed

std::vector<int64_t> RemoteState::versions_of(const Tensor& tensor) const {
  std::vector<int64_t> versions;
  if (tensor.variable) {
    for (size_t r = 0; r < servers_.num_replicas(); ++r) {
      versions.push_back(tensor.variable->on_replica(static_cast<int>(r))._version());
    }
  } else {
    for (const at::Tensor& each : tensor.replicas) versions.push_back(each._version());
  }
  return versions;
}

void RemoteState::note_equal(Tensor& tensor) const {
  tensor.versions = versions_of(tensor);
  if (!tensor.constant) tensor.contents = contents_of(tensor);
}

/// Versions also change where a tensor is written with what it has.
bool RemoteState::has_changed(Tensor& tensor) const {
  std::vector<int64_t> versions = versions_of(tensor);
  if (versions == tensor.versions) return false;
  if (contents_of(tensor) != tensor.contents) return true;
  tensor.versions = std::move(versions);
  return false;
}

std::string RemoteState::contents_of(const Tensor& tensor) {
  if (tensor.variable) return tensor::fingerprint({tensor.variable->on_replica(0).detach()});
  return tensor::fingerprint(tensor.replicas);
}

// --- Both ways

std::vector<size_t> RemoteState::all_updates() const {
  std::vector<size_t> all(updates_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

void RemoteState::push_changed() {
  std::vector<size_t> changed;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (!tensors_[t].constant && has_changed(tensors_[t])) changed.push_back(t);
  }
  if (changed.empty()) return;
  servers_.resuming([&] { push(changed, {}); });
}

void RemoteState::push_all() {
  std::vector<size_t> tensors;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (!tensors_[t].constant) tensors.push_back(t);
  }
  servers_.resuming([&] { push(tensors, all_updates()); });
}

void RemoteState::fetch_written() {
  push_changed();  // or it were lost
  std::vector<size_t> tensors;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (tensors_[t].written) tensors.push_back(t);
  }
  servers_.resuming([&] { fetch(tensors, all_updates()); });
}

void RemoteState::push(const std::vector<size_t>& tensors, const std::vector<size_t>& updates) {
  if (tensors.empty() && updates.empty()) return;
  servers_.ask_workers([&](size_t) {
    Request request{.kind = RequestKind::kPush};
    request.tensors.assign(tensors.begin(), tensors.end());
    request.slots.assign(updates.begin(), updates.end());
    for (const size_t u : updates) request.iterations.push_back(updates_[u]->finished());
    return request;
  });
  servers_.replies_of_workers();
  for (size_t i = 0; i < servers_.num_workers(); ++i) {
    std::vector<at::Tensor> elements;
    for (const size_t t : tensors) {
      const std::vector<at::Tensor> values = values_on(i, tensors_[t]);
      elements.insert(elements.end(), values.begin(), values.end());
    }
    for (const size_t u : updates) {
      for (const auto& [name, slot] : updates_[u]->shipped_slots()) {
        elements.push_back(slot.detach().contiguous());
      }
    }
    ServerConnections::Server& worker = servers_.workers()[i];
    worker.transfer.send(*worker.connection, elements);
  }
  servers_.wait_for_transfers();
  servers_.replies_of_workers();
  for (const size_t t : tensors) note_equal(tensors_[t]);
}

/// Nothing here changes before all is there.
void RemoteState::fetch(const std::vector<size_t>& tensors, const std::vector<size_t>& updates) {
  if (tensors.empty() && updates.empty()) return;
  const at::NoGradGuard no_grad;
  // Variables and slots are the same everywhere: the first worker's.
  const auto is_sent = [&](size_t worker, size_t t) {
    return worker == 0 || !(tensors_[t].variable || tensors_[t].spec.shared);
  };
  servers_.ask_workers([&](size_t i) {
    Request request{.kind = RequestKind::kFetch};
    for (const size_t t : tensors) {
      if (is_sent(i, t)) request.tensors.push_back(static_cast<int64_t>(t));
    }
    if (i == 0) request.slots.assign(updates.begin(), updates.end());
    return request;
  });
  const std::vector<Reply> replies = servers_.replies_of_workers();
  STRATA_CHECK(replies[0].iterations.size() == updates.size(), kDataLoss,
               "[standalone] fetch: got ", replies[0].iterations.size(),
               " numbers of iterations; expected ", updates.size());
  std::vector<std::vector<at::Tensor>> fetched(servers_.num_workers());
  std::vector<std::vector<at::Tensor>> slots;
  for (size_t i = 0; i < fetched.size(); ++i) {
    for (const size_t t : tensors) {
      if (!is_sent(i, t)) continue;
      for (const at::Tensor& value : values_on(i, tensors_[t])) {
        fetched[i].push_back(at::empty_like(value));
      }
    }
    std::vector<at::Tensor> memory = fetched[i];
    for (const size_t u : i == 0 ? updates : std::vector<size_t>()) {
      auto& of_update = slots.emplace_back();
      for (const auto& [name, slot] : updates_[u]->shipped_slots()) {
        of_update.push_back(at::empty_like(slot, at::MemoryFormat::Contiguous));
      }
      memory.insert(memory.end(), of_update.begin(), of_update.end());
    }
    ServerConnections::Server& worker = servers_.workers()[i];
    worker.transfer.receive(*worker.connection, memory);
  }
  servers_.wait_for_transfers();
  for (size_t i = 0; i < fetched.size(); ++i) {
    auto next = fetched[i].begin();
    for (const size_t t : tensors) {
      if (!is_sent(i, t)) continue;
      if (tensors_[t].variable) {
        tensors_[t].variable->assign(*next++);
        continue;
      }
      for (at::Tensor value : values_on(i, tensors_[t])) value.copy_(*next++);
    }
  }
  for (size_t k = 0; k < updates.size(); ++k) {
    optimizers::ShippedUpdate& update = *updates_[updates[k]];
    for (size_t s = 0; s < slots[k].size(); ++s) update.set_shipped_slot(s, slots[k][s]);
    update.set_finished(replies[0].iterations[k]);
  }
  for (const size_t t : tensors) note_equal(tensors_[t]);
}

// --- Of a run

std::vector<double> RemoteState::next_rates() const {
  std::vector<double> rates;
  for (const auto& update : updates_) rates.push_back(update->next_rate());
  return rates;
}

void RemoteState::count_finished(const std::vector<size_t>& updates, int64_t times) {
  for (const size_t u : updates) updates_[u]->set_finished(updates_[u]->finished() + times);
}

}  // namespace strata::standalone
