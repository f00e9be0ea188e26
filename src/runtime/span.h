#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "strata/core/str_cat.h"
#include "strata/runtime/span_observer.h"

namespace strata::detail {

/// Of the calling thread's SpanObserverScope; null: no observer.
const std::shared_ptr<SpanObserver>& span_observer();

/// Its destructor informs `observer`, if there is one.
class Span {
 public:
  /// `parts` make the name, if anybody wants it.
  template <typename... Parts>
  explicit Span(std::shared_ptr<SpanObserver> observer, const Parts&... parts)
      : observer_(std::move(observer)) {
    if (!observer_) return;
    name_ = str_cat(parts...);
    began_ = std::chrono::steady_clock::now();
  }
  ~Span() {
    if (observer_) observer_->span_ended(name_, began_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  std::shared_ptr<SpanObserver> observer_;
  std::string name_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace strata::detail
