#include "strata/ps/function_registry.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "core/join.h"
#include "core/sha256.h"

namespace strata::ps {

void CallContext::throw_if_stopped() const {
  STRATA_CHECK(!stop_.stop_requested(), kCancelled,
               "[ps] the function was stopped: its result is no longer needed");
}

const detail::Resource& CallContext::resource(ResourceId id) const {
  const auto found = resources_.find(id.number);
  STRATA_CHECK(found != resources_.end(), kNotFound, "per-worker value ", id.number,
               " is not on this worker; create it with create_per_worker of the coordinator that "
               "schedules, and keep the handle");
  const detail::Resource& resource = *found->second;
  if (!resource.status.ok()) {
    throw Error(resource.status.code(),
                str_cat("per-worker value \"", resource.name, "\": ", resource.status.message()));
  }
  return resource;
}

namespace detail {

std::string type_name(std::type_index type) {
  int status = 0;
  char* const demangled = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string name = demangled != nullptr ? demangled : type.name();
  std::free(demangled);
  return name;
}

std::string describe(const Value& value) {
  if (value.kind() != Value::Kind::kList) return std::string(Value::kind_name(value.kind()));
  if (value.list().empty()) return "list";
  const std::string first = describe(value.list().front());
  for (const Value& each : value.list()) {
    if (describe(each) != first) return "list<any>";
  }
  return "list<" + first + ">";
}

bool fits(const Value& value, const Type& type) {
  if (!type.kind || value.kind() == Value::Kind::kResource) return true;
  if (value.kind() == Value::Kind::kInt && *type.kind == Value::Kind::kDouble) return true;
  if (value.kind() != *type.kind) return false;
  if (*type.kind != Value::Kind::kList || type.element == nullptr) return true;
  return std::ranges::all_of(value.list(),
                             [&](const Value& each) { return fits(each, *type.element); });
}

void wrong_value(const Value& value, std::string_view expected) {
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("got ", describe(value), "; expected ", expected));
}

void wrong_resource(const Resource& resource, const Type& expected) {
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("got the per-worker value \"", resource.name, "\", which is ",
                      resource.type ? "a resource<" + type_name(*resource.type) + ">"
                                    : describe(resource.value),
                      "; expected ", expected.text));
}

}  // namespace detail

void FunctionRegistry::insert(std::string name, Entry entry) {
  constexpr size_t kMaxName = 255;
  const bool printable =
      std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) >= ' '; });
  STRATA_CHECK(!name.empty() && name.size() <= kMaxName && printable, kInvalidArgument,
               "[ps] FunctionRegistry: got the name \"", name, "\"; expected 1 to ", kMaxName,
               " bytes without control characters");
  const auto [at, inserted] =
      entries_.try_emplace(std::move(name), std::make_shared<const Entry>(std::move(entry)));
  STRATA_CHECK(inserted, kAlreadyExists, "[ps] FunctionRegistry: got \"", at->first,
               "\" twice; give each function a name of its own");
}

std::vector<std::string> FunctionRegistry::signatures() const {
  std::vector<std::string> all;
  for (const auto& [name, entry] : entries_) {
    all.push_back(str_cat(name, "(", join(entry->parameters, &detail::Type::text), ") -> ",
                          entry->result.text));
  }
  return all;
}

uint64_t FunctionRegistry::fingerprint() const {
  Sha256 hash;
  const std::string all = join(signatures(), {}, "\n");
  hash.update(all.data(), all.size());
  return std::strtoull(hash.hex_digest().substr(0, 16).c_str(), nullptr, 16);
}

FunctionRegistry::Found FunctionRegistry::find(std::string_view name) const {
  const auto found = entries_.find(name);
  STRATA_CHECK(
      found != entries_.end(), kNotFound, "[ps] FunctionRegistry: got the function \"", name,
      "\"; expected one of those that are registered: ",
      entries_.empty() ? "none is" : join(entries_, [](const auto& each) { return each.first; }));
  return {.index = static_cast<uint32_t>(std::distance(entries_.begin(), found)),
          .name = found->first,
          .entry = *found->second};
}

std::optional<FunctionRegistry::Found> FunctionRegistry::at(uint32_t index) const {
  if (index >= entries_.size()) return std::nullopt;
  const auto found = std::next(entries_.begin(), index);
  return Found{.index = index, .name = found->first, .entry = *found->second};
}

std::string registry_difference(const std::vector<std::string>& here,
                                const std::vector<std::string>& there) {
  constexpr size_t kNamed = 5;
  const auto without = [](const std::vector<std::string>& all,
                          const std::vector<std::string>& others) {
    std::vector<std::string> left;
    std::ranges::copy_if(all, std::back_inserter(left), [&](const std::string& each) {
      return std::ranges::find(others, each) == others.end();
    });
    const size_t more = left.size() > kNamed ? left.size() - kNamed : 0;
    left.resize(left.size() - more);
    if (more > 0) left.push_back(str_cat(more, " more"));
    return left.empty() ? std::string("nothing") : join(left);
  };
  return str_cat("only here: ", without(here, there), "; only there: ", without(there, here));
}

}  // namespace strata::ps
