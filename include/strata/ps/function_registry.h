#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/ps/call_context.h"
#include "strata/ps/function_types.h"
#include "strata/ps/value.h"

namespace strata::ps {

/// The functions that a ClusterCoordinator can call on workers, by name. One function of the
/// program, which all tasks run, fills it: so all have the same entries, no linker can drop one,
/// and a function's captures belong to its own task.
///
///     void register_all(ps::FunctionRegistry& registry) {
///       registry.add("train_step", [](data::Iterator& batches, int64_t step) -> double {...});
///       registry.add_resource("batches", [](int64_t batch_size) { return make_batches(...); });
///     }
///
/// Parameters: at::Tensor, double, int64_t (and the narrower ones, checked), bool, std::string,
/// std::vector of these, Value; T& and std::shared_ptr<T> take the worker's own object that a
/// factory has made. A first parameter `const CallContext&` is filled in. Results: the same but the
/// objects, void, std::tuple and std::pair.
///
/// A value: copying is cheap. Threads: one at a time while it is filled; then any, and functions
/// may be called by several threads at once (WorkerOptions::threads).
/// Source: the tf.functions of tf.distribute.coordinator.ClusterCoordinator.schedule.
class STRATA_API FunctionRegistry {
 public:
  /// @return a handle that ClusterCoordinator::schedule takes in place of the name, to check
  ///   arguments at compile time.
  /// @throws Error  kInvalidArgument: a name that is empty, of more than 255 bytes, or has control
  ///     characters. kAlreadyExists.
  template <typename F>
  auto add(std::string name, F function) {
    static_assert(detail::HasSignature<F>,
                  "a registered function has parameters of one type each: not `auto`, and no "
                  "overloads");
    using Signature = typename detail::Callable<F>::type;
    using Result = typename Signature::Result;
    Entry entry;
    entry.parameters = Signature::parameters();
    entry.result = detail::result_type<std::remove_cvref_t<Result>>();
    auto shared = std::make_shared<F>(std::move(function));
    entry.call = [shared](const CallContext& context, const std::vector<Value>& values) {
      if constexpr (std::is_void_v<Result>) {
        Signature::call(*shared, context, values);
        return Value();
      } else {
        return detail::to_value(Signature::call(*shared, context, values));
      }
    };
    typename Signature::Handle handle(name);
    insert(std::move(name), std::move(entry));
    return handle;
  }

  /// Adds a factory. `factory` returns a T, std::unique_ptr<T> or std::shared_ptr<T>, and the
  /// object stays on its worker. It is called on each worker once for each
  /// ClusterCoordinator::create_per_worker_values, and again on a worker that was lost and
  /// reconnected. @throws Error  as `add`.
  template <typename F>
  void add_resource(std::string name, F factory) {
    static_assert(detail::HasSignature<F>, "a factory has parameters of one type each");
    using Signature = typename detail::Callable<F>::type;
    using Made = typename Shareable<typename Signature::Result>::type;
    Entry entry;
    entry.parameters = Signature::parameters();
    entry.object = typeid(Made);
    entry.result = {.text = "resource<" + detail::type_name(typeid(Made)) + ">",
                    .kind = Value::Kind::kResource,
                    .resource = typeid(Made)};
    auto shared = std::make_shared<F>(std::move(factory));
    entry.make = [shared](const CallContext& context,
                          const std::vector<Value>& values) -> std::shared_ptr<void> {
      return Shareable<typename Signature::Result>::share(
          Signature::call(*shared, context, values));
    };
    insert(std::move(name), std::move(entry));
  }

  bool contains(std::string_view name) const { return entries_.contains(name); }
  /// Prints signatures sorted by name: "train_step(resource<strata::data::Iterator>, int64) ->
  /// float64".
  std::vector<std::string> signatures() const;
  /// A hash of names and signatures; different registries collide with a chance of 1 in 2^64.
  uint64_t fingerprint() const;

  // For ps::Coordinator and WorkerServer.

  struct Entry {
    std::vector<detail::Type> parameters;
    detail::Type result;
    std::optional<std::type_index> object;  ///< of a factory
    std::function<Value(const CallContext&, const std::vector<Value>&)> call;
    std::function<std::shared_ptr<void>(const CallContext&, const std::vector<Value>&)> make;
  };
  struct Found {
    uint32_t index;  ///< in the order of the names
    const std::string& name;
    const Entry& entry;
  };
  /// @throws Error  kNotFound: lists the known names.
  Found find(std::string_view name) const;
  /// Returns nullopt if the index is out of range.
  std::optional<Found> at(uint32_t index) const;

 private:
  template <typename T>
  struct Shareable {
    using type = T;
    static std::shared_ptr<T> share(T made) { return std::make_shared<T>(std::move(made)); }
  };
  template <typename T>
  struct Shareable<std::shared_ptr<T>> {
    using type = T;
    static std::shared_ptr<T> share(std::shared_ptr<T> made) { return made; }
  };
  template <typename T>
  struct Shareable<std::unique_ptr<T>> {
    using type = T;
    static std::shared_ptr<T> share(std::unique_ptr<T> made) { return made; }
  };

  void insert(std::string name, Entry entry);

  std::map<std::string, std::shared_ptr<const Entry>, std::less<>> entries_;
};

/// Describes how two registries differ, in a line: "only here: f(int64) -> nothing; only there:
/// ...".
STRATA_API std::string registry_difference(const std::vector<std::string>& here,
                                           const std::vector<std::string>& there);

}  // namespace strata::ps
