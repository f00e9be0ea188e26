#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "keras_files/model_layout.h"
#include "strata/core/error.h"
#include "strata/core/json.h"
#include "strata/keras/config.h"

// What initializers, regularizers and constraints share: each is a class of Keras's with options,
// or a function of the user's.
namespace strata::keras {

template <typename F>
struct NamedRule {
  std::string class_name;  // "" for a function of the user's
  Json config;
  F function;
};

/// The options of an object, by `visit`.
template <typename Options>
Json write_options(Options options) {
  ConfigWriter writer;
  visit(writer, options);
  return writer.take();
}

/// @param owner  For messages: "initializer HeNormal".
template <typename Options>
Options read_options(const Json& config, const std::string& owner) {
  Options options;
  ConfigReader reader(config, owner);
  visit(reader, options);
  reader.finish();
  return options;
}

/// Keras's classes of one kind, by name and from their objects.
template <typename Object>
class ClassRegistry {
 public:
  using Make = Object (*)(const Json& config, const std::string& owner);

  struct Class {
    /// @param more  Names beside the class's own and its snake case.
    Class(std::string class_name, Make make_object, std::vector<std::string> more = {})
        : name(std::move(class_name)), make(make_object), aliases(std::move(more)) {
      aliases.push_back(keras_files::to_snake_case(name));
      aliases.push_back(name);
    }

    std::string name;
    Make make;
    std::vector<std::string> aliases;
  };

  /// @param kind  "initializer"; its plural is the module in Keras.
  ClassRegistry(std::string kind, std::vector<Class> classes)
      : kind_(std::move(kind)), classes_(std::move(classes)) {}

  Object named(const std::string& name) const {
    const Class* found = find(name);
    STRATA_CHECK(found != nullptr, kInvalidArgument, "[", kind_, "s] got '", name,
                 "'; expected one of ", names(), ", or a function");
    return instantiate(*found, Json::object());
  }

  /// @throws Error kUnimplemented: a class that is not here.
  Object read(const Json& json) const {
    ObjectJson object = parse_object(json, kind_);
    if (object.class_name == "function" && object.config.is_string()) {
      object = {.class_name = object.config.as_string()};
    }
    const Class* found = find(object.class_name);
    STRATA_CHECK(found != nullptr, kUnimplemented, "[", kind_, "s] from_config: got '",
                 object.class_name, "'; strata has ", names());
    return instantiate(*found, object.config);
  }

  template <typename F>
  Json write(const NamedRule<F>& rule) const {
    STRATA_CHECK(
        !rule.class_name.empty(), kUnimplemented, "[", kind_,
        "s] to_config: got a user-defined function, which no file of Keras's can hold; use "
        "one of ",
        names());
    return make_object("keras." + kind_ + "s", rule.class_name, rule.config);
  }

 private:
  const Class* find(std::string_view name) const {
    for (const Class& each : classes_) {
      for (const std::string& alias : each.aliases) {
        if (alias == name) return &each;
      }
    }
    return nullptr;
  }

  Object instantiate(const Class& found, const Json& config) const {
    return found.make(config, kind_ + " " + found.name);
  }

  std::string names() const {
    std::string text;
    for (const Class& each : classes_) {
      if (!text.empty()) text += ", ";
      text += keras_files::to_snake_case(each.name);
    }
    return text;
  }

  std::string kind_;
  std::vector<Class> classes_;
};

/// A row's `make` for classes that are made from their options alone.
template <typename Object, typename Class, typename Options>
Object make_rule(const Json& config, const std::string& owner) {
  return Class(read_options<Options>(config, owner));
}

}  // namespace strata::keras
