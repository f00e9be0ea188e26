#include "strata/runtime/span_observer.h"

#include <utility>

#include "runtime/span.h"

namespace strata {
namespace {

std::shared_ptr<SpanObserver>& of_this_thread() {
  thread_local std::shared_ptr<SpanObserver> observer;
  return observer;
}

}  // namespace

namespace detail {

const std::shared_ptr<SpanObserver>& span_observer() { return of_this_thread(); }

}  // namespace detail

SpanObserverScope::SpanObserverScope(std::shared_ptr<SpanObserver> observer)
    : previous_(std::exchange(of_this_thread(), std::move(observer))) {}

SpanObserverScope::~SpanObserverScope() { of_this_thread() = std::move(previous_); }

}  // namespace strata
