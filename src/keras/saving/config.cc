#include "strata/keras/config.h"

namespace strata::keras {
namespace {

template <typename T>
Json list(const std::vector<T>& values) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(to_config(value));
  return json;
}

template <typename T>
void read_list(const Json& json, std::vector<T>& values) {
  std::vector<T> read;
  for (const Json& element : json.as_array()) {
    T value{};
    from_config(element, value);
    read.push_back(std::move(value));
  }
  values = std::move(read);
}

}  // namespace

Json to_config(const std::vector<int64_t>& value) { return list(value); }
Json to_config(const std::vector<double>& value) { return list(value); }
Json to_config(const std::vector<std::string>& value) { return list(value); }
Json to_config(const std::vector<std::optional<int64_t>>& value) { return list(value); }

void from_config(const Json& json, bool& value) { value = json.as_bool(); }
void from_config(const Json& json, int& value) { value = static_cast<int>(json.as_int()); }
void from_config(const Json& json, int64_t& value) { value = json.as_int(); }
void from_config(const Json& json, double& value) { value = json.as_double(); }
void from_config(const Json& json, std::string& value) { value = json.as_string(); }
void from_config(const Json& json, std::vector<int64_t>& value) { read_list(json, value); }
void from_config(const Json& json, std::vector<double>& value) { read_list(json, value); }
void from_config(const Json& json, std::vector<std::string>& value) { read_list(json, value); }
void from_config(const Json& json, std::vector<std::optional<int64_t>>& value) {
  read_list(json, value);
}

ConfigReader::ConfigReader(const Json& config, std::string owner)
    : config_(config), owner_(std::move(owner)) {
  STRATA_CHECK(config.is_object(), kDataLoss, "[keras] config of ", owner_, ": got ", config.dump(),
               "; expected an object of options");
}

void ConfigReader::only(const char* key, const Json& value) {
  const Json* json = take(key);
  if (json == nullptr || json->is_null() || *json == value) return;
  if (json->is_number() && value.is_number() && json->as_double() == value.as_double()) return;
  STRATA_CHECK(false, kUnimplemented, "[keras] config of ", owner_, ": got option '", key,
               "' = ", json->dump(), "; strata has only ", value.dump());
}

void ConfigReader::finish() const {
  for (const auto& [key, value] : config_.as_object()) {
    STRATA_CHECK(value.is_null() || asked_.contains(key), kUnimplemented, "[keras] config of ",
                 owner_, ": got option '", key, "' = ", value.dump(),
                 "; it is unknown to strata, so the model would differ from the saved one");
  }
}

const Json* ConfigReader::take(const char* key) {
  asked_.insert(key);
  return config_.find(key);
}

void ConfigReader::fail(const char* key, const Json& json, const Error& error) const {
  throw Error(error.code(), str_cat("[keras] config of ", owner_, ": option '", key,
                                    "' = ", json.dump(), ": ", error.what()));
}

Json make_object(std::string_view module, std::string_view class_name, Json config) {
  Json json = Json::object();
  json.set("module", module);
  json.set("class_name", class_name);
  json.set("config", std::move(config));
  json.set("registered_name", Json());
  return json;
}

ObjectJson parse_object(const Json& json, std::string_view what) {
  if (json.is_string()) return {.class_name = json.as_string()};
  const Json* class_name = json.is_object() ? json.find("class_name") : nullptr;
  STRATA_CHECK(class_name != nullptr && class_name->is_string(), kDataLoss, "[keras] config of ",
               what, ": got ", json.dump(), "; expected a name or an object with 'class_name'");
  const Json* config = json.find("config");
  return {.class_name = class_name->as_string(),
          .config = config == nullptr || config->is_null() ? Json::object() : *config};
}

}  // namespace strata::keras
