#include "strata/keras/callback.h"

#include <algorithm>

#include "core/join.h"
#include "strata/core/error.h"
#include "strata/keras/training.h"

namespace strata::keras {
namespace {

const auto name_of = [](const auto& each) { return each.first; };

}  // namespace

const Logs::Values& Logs::values() const {
  if (compute_) {
    Values computed = std::exchange(compute_, nullptr)();
    for (auto& value : computed) {
      const bool set = std::any_of(values_.begin(), values_.end(),
                                   [&](const auto& each) { return each.first == value.first; });
      if (!set) values_.push_back(std::move(value));
    }
  }
  std::sort(values_.begin(), values_.end());
  return values_;
}

std::optional<double> Logs::find(const std::string& name) const {
  for (const auto& [each, value] : values()) {
    if (each == name) return value;
  }
  return std::nullopt;
}

double Logs::at(const std::string& name) const {
  if (const auto value = find(name)) return *value;
  STRATA_CHECK(false, kNotFound, "[keras] logs: no '", name, "'; there are ",
               join(values(), name_of));
}

void Logs::set(const std::string& name, double value) {
  for (auto& [each, present] : values_) {
    if (each == name) {
      present = value;
      return;
    }
  }
  values_.emplace_back(name, value);
}

const std::vector<double>& History::operator[](const std::string& name) const {
  const auto found = history.find(name);
  if (found != history.end()) return found->second;
  STRATA_CHECK(false, kNotFound, "[keras] history: no '", name, "'; there are ",
               join(history, name_of));
}

}  // namespace strata::keras
