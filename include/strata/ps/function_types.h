#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/ps/call_context.h"
#include "strata/ps/value.h"

namespace strata::ps {

/// The name of a registered function, and its types: `RemoteFunction<double(at::Tensor, int64_t)>`.
/// A first parameter `const CallContext&` is not included.
template <typename Signature>
class RemoteFunction {
 public:
  explicit RemoteFunction(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

}  // namespace strata::ps

// The conversion of C++ functions' parameters and results to those of a FunctionRegistry, and back.
namespace strata::ps::detail {

/// The type of a parameter or a result.
struct STRATA_API Type {
  std::string text;  ///< "list<Tensor>", "resource<MyIterator>"
  /// nullopt: any.
  std::optional<Value::Kind> kind = {};
  std::shared_ptr<const Type> element = {};      ///< a list's; null: any
  std::optional<std::type_index> resource = {};  ///< the type of the object behind a kResource
};

/// The name of a C++ type, as a debugger shows it.
STRATA_API std::string type_name(std::type_index type);

/// Prints a value's type: "list<int64>".
STRATA_API std::string describe(const Value& value);

/// True if `value` can be passed as `type`. An int64 can be a float64. A resource can be passed as
/// its own type, or as the type of the value that it refers to.
STRATA_API bool fits(const Value& value, const Type& type);

[[noreturn]] STRATA_API void wrong_value(const Value& value, std::string_view expected);
[[noreturn]] STRATA_API void wrong_resource(const Resource& resource, const Type& expected);

template <typename T>
struct ListElement {};
template <typename T>
struct ListElement<std::vector<T>> {
  using type = T;
};
template <typename T>
concept List = requires {
  typename ListElement<T>::type;
};

template <typename T>
struct SharedElement {};
template <typename T>
struct SharedElement<std::shared_ptr<T>> {
  using type = T;
};
template <typename T>
concept Shared = requires {
  typename SharedElement<T>::type;
};

template <typename T>
struct IsTuple : std::false_type {};
template <typename... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};
template <typename A, typename B>
struct IsTuple<std::pair<A, B>> : std::true_type {};

/// The types that are sent.
template <typename T>
concept Plain = std::same_as<T, Value> || std::same_as<T, at::Tensor> || std::same_as<T, bool> ||
    std::integral<T> || std::floating_point<T> || std::same_as<T, std::string> || List<T>;

template <Plain T>
Type plain_type() {
  if constexpr (std::same_as<T, Value>) {
    return {.text = "any"};
  } else if constexpr (List<T>) {
    auto element = std::make_shared<Type>(plain_type<typename ListElement<T>::type>());
    return {.text = "list<" + element->text + ">", .kind = Value::Kind::kList, .element = element};
  } else {
    constexpr Value::Kind kind = std::same_as<T, at::Tensor>    ? Value::Kind::kTensor
                                 : std::same_as<T, bool>        ? Value::Kind::kBool
                                 : std::same_as<T, std::string> ? Value::Kind::kString
                                 : std::integral<T>             ? Value::Kind::kInt
                                                                : Value::Kind::kDouble;
    return {.text = std::string(Value::kind_name(kind)), .kind = kind};
  }
}

/// @throws Error  kInvalidArgument: it is not a T, or is out of its range.
template <Plain T>
T from_value(const Value& value) {
  if constexpr (std::same_as<T, Value>) {
    return value;
  } else if constexpr (std::same_as<T, at::Tensor>) {
    if (value.kind() == Value::Kind::kTensor) return value.tensor();
  } else if constexpr (std::same_as<T, bool>) {
    if (value.kind() == Value::Kind::kBool) return value.as_bool();
  } else if constexpr (std::same_as<T, std::string>) {
    if (value.kind() == Value::Kind::kString) return value.text();
  } else if constexpr (std::integral<T>) {
    if (value.kind() == Value::Kind::kInt) {
      STRATA_CHECK(std::in_range<T>(value.as_int()), kInvalidArgument, "got ", value.as_int(),
                   "; expected an integer of ", 8 * sizeof(T), " bits");
      return static_cast<T>(value.as_int());
    }
  } else if constexpr (std::floating_point<T>) {
    if (value.kind() == Value::Kind::kDouble) return static_cast<T>(value.as_double());
    if (value.kind() == Value::Kind::kInt) return static_cast<T>(value.as_int());
  } else {
    if (value.kind() == Value::Kind::kList) {
      T list;
      list.reserve(value.list().size());
      for (const Value& each : value.list()) {
        list.push_back(from_value<typename ListElement<T>::type>(each));
      }
      return list;
    }
  }
  wrong_value(value, plain_type<T>().text);
}

/// The value that a parameter declared as A gets: `T` for the types that are sent,
/// `std::shared_ptr<T>` for resources (`T&`, `std::shared_ptr<T>`).
template <typename A>
struct Parameter {
  using Bare = std::remove_cvref_t<A>;
  static constexpr bool kReference =
      std::is_lvalue_reference_v<A> && !std::is_const_v<std::remove_reference_t<A>>;
  static_assert(kReference || Plain<Bare> || Shared<Bare>,
                "a parameter of a registered function is a tensor, a number, a bool, a string, a "
                "std::vector of these, a ps::Value, or, for a resource, T& or std::shared_ptr<T>");

  static auto held() {
    if constexpr (kReference) {
      return std::type_identity<std::shared_ptr<Bare>>();
    } else {
      return std::type_identity<Bare>();
    }
  }
  using Held = typename decltype(held())::type;

  static Type type() {
    if constexpr (kReference || Shared<Bare>) {
      using Object = typename SharedElement<Held>::type;
      return {.text = "resource<" + type_name(typeid(Object)) + ">",
              .kind = Value::Kind::kResource,
              .resource = typeid(Object)};
    } else {
      return plain_type<Bare>();
    }
  }

  static Held from(const Value& value, const CallContext& context) {
    if constexpr (kReference || Shared<Bare>) {
      using Object = typename SharedElement<Held>::type;
      if (value.kind() != Value::Kind::kResource) wrong_value(value, type().text);
      const Resource& resource = context.resource(value.resource());
      if (resource.type != std::type_index(typeid(Object))) wrong_resource(resource, type());
      return std::static_pointer_cast<Object>(resource.object);
    } else {
      if (value.kind() != Value::Kind::kResource) return from_value<Bare>(value);
      const Resource& resource = context.resource(value.resource());
      if (resource.type) wrong_resource(resource, type());
      return from_value<Bare>(resource.value);
    }
  }

  static decltype(auto) pass(Held& held) {
    if constexpr (kReference) {
      return static_cast<Bare&>(*held);
    } else {
      return static_cast<std::conditional_t<std::is_lvalue_reference_v<A>, A, Bare&&>>(held);
    }
  }
};

template <typename R>
Type result_type() {
  if constexpr (std::is_void_v<R>) {
    return {.text = "nothing", .kind = Value::Kind::kNothing};
  } else if constexpr (IsTuple<R>::value) {
    return {.text = "list", .kind = Value::Kind::kList};
  } else {
    static_assert(Plain<R>,
                  "a registered function returns nothing, a tensor, a number, a bool, a string, a "
                  "std::vector or std::tuple of these, or a ps::Value");
    return plain_type<R>();
  }
}

template <typename R>
Value to_value(R&& result) {
  if constexpr (IsTuple<std::remove_cvref_t<R>>::value) {
    return std::apply([](auto&&... each) { return Value(Value::List{Value(each)...}); },
                      std::forward<R>(result));
  } else {
    return Value(std::forward<R>(result));
  }
}

/// Converts an argument of a typed call to the form in which it is sent.
template <typename A, typename Given>
Value to_argument(const Given& given) {
  using Bare = typename Parameter<A>::Bare;
  if constexpr (Parameter<A>::kReference || Shared<Bare> || !std::convertible_to<Given, Bare>) {
    static_assert(!Plain<Given> && std::convertible_to<Given, Value>,
                  "a parameter T& or std::shared_ptr<T> is given a PerWorkerValues; others what "
                  "converts to them, or a PerWorkerValues");
    return given;
  } else {
    return Value(static_cast<Bare>(given));
  }
}

/// A callable's parameters and result: Signature<R, const CallContext&?, Args...>.
template <typename R, bool WithContext, typename... Args>
struct Signature {
  using Result = R;
  using Handle = RemoteFunction<R(Args...)>;

  static std::vector<Type> parameters() { return {Parameter<Args>::type()...}; }

  template <typename Function>
  static R call(Function& function, const CallContext& context, const std::vector<Value>& values) {
    return call_with(function, context, values, std::index_sequence_for<Args...>());
  }

 private:
  template <typename Function, size_t... I>
  static R call_with(Function& function, const CallContext& context,
                     const std::vector<Value>& values, std::index_sequence<I...>) {
    // Braces evaluate from the first to the last.
    std::tuple<typename Parameter<Args>::Held...> held{convert<Args>(values[I], context, I)...};
    if constexpr (WithContext) {
      return function(context, Parameter<Args>::pass(std::get<I>(held))...);
    } else {
      return function(Parameter<Args>::pass(std::get<I>(held))...);
    }
  }

  template <typename A>
  static typename Parameter<A>::Held convert(const Value& value, const CallContext& context,
                                             size_t index) {
    try {
      return Parameter<A>::from(value, context);
    } catch (const Error& error) {
      throw Error(error.code(), str_cat("argument ", index, ": ", error.what()));
    }
  }
};

template <typename R, typename... Args>
struct SignatureOf {
  using type = Signature<R, false, Args...>;
};
template <typename R, typename... Args>
struct SignatureOf<R, const CallContext&, Args...> {
  using type = Signature<R, true, Args...>;
};

/// @cond  doxygen takes the next one for its own base class
template <typename F>
struct Callable : Callable<decltype(&F::operator())> {};
/// @endcond
template <typename R, typename... Args>
struct Callable<R (*)(Args...)> : SignatureOf<R, Args...> {};
template <typename R, typename... Args>
struct Callable<R (*)(Args...) noexcept> : SignatureOf<R, Args...> {};
template <typename R, typename F, typename... Args>
struct Callable<R (F::*)(Args...)> : SignatureOf<R, Args...> {};
template <typename R, typename F, typename... Args>
struct Callable<R (F::*)(Args...) const> : SignatureOf<R, Args...> {};
template <typename R, typename F, typename... Args>
struct Callable<R (F::*)(Args...) noexcept> : SignatureOf<R, Args...> {};
template <typename R, typename F, typename... Args>
struct Callable<R (F::*)(Args...) const noexcept> : SignatureOf<R, Args...> {};

template <typename F>
concept HasSignature = requires {
  typename Callable<F>::type;
};

}  // namespace strata::ps::detail
