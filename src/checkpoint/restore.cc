#include <algorithm>

#include "checkpoint/session.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata {
namespace detail {
namespace {

using checkpoint::GraphTensor;
using checkpoint::GraphValue;
using checkpoint::LoadedTensor;

constexpr size_t kNamesShown = 12;

bool is_own(const std::string& name) { return name.front() == checkpoint::kOwnPrefix; }

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kNamesShown; ++i) {
    text += str_cat(i == 0 ? "'" : ", '", names[i], "'");
  }
  if (names.size() > kNamesShown) text += str_cat(" and ", names.size() - kNamesShown, " more");
  return text;
}

/// 'model/2' (dense_1/kernel): the name in the checkpoint, and the variable's own if that says
/// more.
std::string shown(const GraphTensor& tensor) {
  const std::string& label = tensor.state.label;
  const bool known = label.empty() || tensor.name.find(label) != std::string::npos;
  return str_cat("'", tensor.name, "'", known ? "" : str_cat(" (", label, ")"));
}

std::string describe(at::ScalarType dtype, at::IntArrayRef sizes) {
  return str_cat(c10::toString(dtype), ' ', sizes);
}

}  // namespace

RestoreSession::RestoreSession(std::weak_ptr<CheckpointState> state, checkpoint::Loaded loaded)
    : state_(std::move(state)), loaded_(std::move(loaded)) {}

RestoreSession::~RestoreSession() {
  const std::vector<std::string> names = unused();
  if (quiet_ || names.empty()) return;
  STRATA_LOG(kWarning) << "[checkpoint] " << loaded_.path << " holds " << list(names)
                       << ", for which there was no object; call expect_partial() on the status "
                          "of restore if that is meant, or assert_consumed() to make it an error";
}

void RestoreSession::check_shapes(const checkpoint::Graph& graph) const {
  std::string wrong;
  int count = 0;
  for (const GraphTensor& tensor : graph.tensors) {
    const auto found = loaded_.tensors.find(tensor.name);
    if (found == loaded_.tensors.end() || restored_.contains(tensor.name)) continue;
    const at::Tensor& value = found->second.value;
    const bool any_dtype = tensor.state.dtype == at::ScalarType::Undefined;
    const bool fits =
        (any_dtype || value.scalar_type() == tensor.state.dtype) &&
        (tensor.state.any_size || value.sizes() == at::IntArrayRef(tensor.state.sizes));
    if (fits || ++count > static_cast<int>(kNamesShown)) continue;
    wrong += str_cat(wrong.empty() ? "" : "; ", shown(tensor), " holds ",
                     describe(value.scalar_type(), value.sizes()), ", the object is ",
                     describe(tensor.state.dtype, tensor.state.sizes));
  }
  if (count > static_cast<int>(kNamesShown)) {
    wrong += str_cat(" and ", count - static_cast<int>(kNamesShown), " more");
  }
  STRATA_CHECK(count == 0, kInvalidArgument, "[checkpoint] restore: ", loaded_.path, ": ", wrong,
               "; make the objects as they were when it was saved");
}

void RestoreSession::write(const GraphTensor& tensor, const LoadedTensor& value) const {
  const TensorState& state = tensor.state;
  try {
    if (state.write_replicas && static_cast<int>(value.replicas.size()) == state.replicas) {
      state.write_replicas(value.replicas);
    } else {
      state.write(value.value);
    }
  } catch (const Error& error) {
    throw Error(error.code(), str_cat("[checkpoint] restore: ", loaded_.path, ": ", shown(tensor),
                                      ": ", error.what()));
  }
}

void RestoreSession::write(const GraphValue& value) const {
  try {
    value.state.write(loaded_.values.at(value.name));
  } catch (const Error& error) {
    throw Error(error.code(), str_cat("[checkpoint] restore: ", loaded_.path, ": '", value.name,
                                      "': ", error.what()));
  }
}

void RestoreSession::apply() {
  const auto state = state_.lock();
  STRATA_CHECK(state != nullptr, kFailedPrecondition, "[checkpoint] restore: ", loaded_.path,
               ": the Checkpoint no longer exists; keep it for as long as its status");
  const checkpoint::Graph graph = state->graph();
  check_shapes(graph);
  missing_.clear();
  // Values first: an iterator may refuse its position, and then no tensor has changed.
  for (const GraphValue& value : graph.values) {
    if (!loaded_.values.contains(value.name)) {
      missing_.push_back(value.name);
    } else if (!restored_.contains(value.name)) {
      write(value);
      restored_.insert(value.name);
    }
  }
  for (const GraphTensor& tensor : graph.tensors) {
    const auto found = loaded_.tensors.find(tensor.name);
    if (found == loaded_.tensors.end()) {
      // Tied to one that is there.
      if (tensor.same_as.empty() || !loaded_.tensors.contains(tensor.same_as)) {
        missing_.push_back(tensor.name);
      }
    } else if (!restored_.contains(tensor.name)) {
      write(tensor, found->second);
      restored_.insert(tensor.name);
      found->second = {};  // its memory
    }
  }
  for (const auto& object : graph.objects) object->after_restore();
}

std::vector<std::string> RestoreSession::unused() const {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!restored_.contains(name) && !is_own(name)) names.push_back(name);
  };
  for (const auto& [name, tensor] : loaded_.tensors) add(name);
  for (const auto& [name, value] : loaded_.values) add(name);
  return names;
}

std::vector<std::string> RestoreSession::unmatched() const {
  std::vector<std::string> names = missing_;
  std::erase_if(names, is_own);
  return names;
}

void RestoreSession::check(bool everything) {
  apply();
  suppress_warning();
  const std::vector<std::string> missing = unmatched();
  STRATA_CHECK(missing.empty(), kFailedPrecondition, "[checkpoint] ",
               everything ? "assert_consumed" : "assert_existing_objects_matched", ": ",
               loaded_.path, " has no ", list(missing),
               ", which the objects have; expected a checkpoint of the same objects");
  if (!everything) return;
  const std::vector<std::string> left = unused();
  STRATA_CHECK(left.empty(), kFailedPrecondition, "[checkpoint] assert_consumed: ", loaded_.path,
               " holds ", list(left),
               ", for which there is no object; make it first, or call "
               "assert_existing_objects_matched() if some objects are meant to be left out");
}

}  // namespace detail

RestoreStatus::RestoreStatus(std::shared_ptr<detail::RestoreSession> session)
    : session_(std::move(session)) {}
RestoreStatus& RestoreStatus::assert_consumed() {
  session_->check(/*everything=*/true);
  return *this;
}
RestoreStatus& RestoreStatus::assert_existing_objects_matched() {
  session_->check(/*everything=*/false);
  return *this;
}
RestoreStatus& RestoreStatus::expect_partial() {
  session_->suppress_warning();
  return *this;
}
RestoreStatus& RestoreStatus::restore_created() {
  session_->apply();
  return *this;
}
std::vector<std::string> RestoreStatus::unused() const { return session_->unused(); }
std::vector<std::string> RestoreStatus::unmatched() const { return session_->unmatched(); }
const std::string& RestoreStatus::path() const { return session_->loaded().path; }
const std::map<std::string, double>& RestoreStatus::metrics() const {
  return session_->loaded().manifest.metrics;
}
int64_t RestoreStatus::number() const { return session_->loaded().manifest.number; }

}  // namespace strata
