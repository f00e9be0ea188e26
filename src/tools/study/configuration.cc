#include "tools/study/configuration.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "core/join.h"
#include "strata/core/error.h"

namespace strata::tools {
namespace {

constexpr std::array<std::pair<StudyStrategy, std::string_view>, 6> kStrategies = {
    {{StudyStrategy::kMirrored, "mirrored"},
     {StudyStrategy::kMultiWorker, "multi_worker"},
     {StudyStrategy::kParameterServer, "parameter_server"},
     {StudyStrategy::kCentral, "central"},
     {StudyStrategy::kOneDevice, "one_device"},
     {StudyStrategy::kIndependent, "independent"}}};
constexpr std::array<std::pair<StudyPlacement, std::string_view>, 3> kPlacements = {
    {{StudyPlacement::kGreedy, "greedy"},
     {StudyPlacement::kRoundRobin, "round_robin"},
     {StudyPlacement::kSharded, "sharded"}}};

template <typename Table, typename T>
std::string_view word_in(const Table& table, T value) {
  return std::ranges::find(table, value, [](const auto& row) { return row.first; })->second;
}

template <typename Table>
auto value_in(const Table& table, std::string_view option, std::string_view word) {
  const auto second = [](const auto& row) { return row.second; };
  const auto found = std::ranges::find(table, word, second);
  STRATA_CHECK(found != table.end(), kInvalidArgument, "[strata study] got ", option, " ", word,
               "; expected one of ", join(table, second));
  return found->first;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.12g", value);
  return text;
}

}  // namespace

std::string_view word_of(StudyStrategy strategy) { return word_in(kStrategies, strategy); }
std::string_view word_of(StudyPlacement placement) { return word_in(kPlacements, placement); }
StudyStrategy strategy_of(std::string_view word) {
  return value_in(kStrategies, "--strategy", word);
}
StudyPlacement placement_of(std::string_view word) {
  return value_in(kPlacements, "--placement", word);
}

bool Configuration::has_processes() const {
  return strategy == StudyStrategy::kMultiWorker || strategy == StudyStrategy::kParameterServer ||
         strategy == StudyStrategy::kIndependent;
}

std::string Configuration::describe() const {
  std::string text = str_cat(network, ", ", word_of(strategy));
  if (strategy == StudyStrategy::kParameterServer) {
    text += str_cat(" (", word_of(placement), synchronous ? "" : ", asynchronous", ")");
  }
  text += str_cat(", ", replicas, replicas == 1 ? " replica" : " replicas");
  if (servers > 0) text += str_cat(", ", servers, servers == 1 ? " server" : " servers");
  return text + (is_synthetic() ? ", synthetic" : ", real images");
}

std::vector<std::string> Configuration::words() const {
  std::vector<std::string> words = {"--network",       network,
                                    "--strategy",      std::string(word_of(strategy)),
                                    "--replicas",      std::to_string(replicas),
                                    "--batch",         std::to_string(batch),
                                    "--dtype",         dtype,
                                    "--data",          data,
                                    "--image-size",    std::to_string(image_size),
                                    "--classes",       std::to_string(classes),
                                    "--optimizer",     optimizer,
                                    "--learning-rate", number(learning_rate),
                                    "--device",        device,
                                    "--threads",       std::to_string(threads),
                                    "--warmup",        std::to_string(warmup),
                                    "--steps",         std::to_string(steps),
                                    "--repeat",        std::to_string(repeat),
                                    "--display-every", std::to_string(display_every)};
  if (strategy == StudyStrategy::kParameterServer) {
    words.insert(words.end(),
                 {"--ps", std::to_string(servers), "--placement", std::string(word_of(placement)),
                  "--cross-replica-sync", synchronous ? "yes" : "no"});
  }
  return words;
}

Json Configuration::to_json() const {
  Json json = Json::object();
  json.set("network", network).set("strategy", word_of(strategy)).set("replicas", replicas);
  json.set("servers", servers).set("placement", word_of(placement));
  json.set("synchronous", synchronous).set("batch", batch).set("dtype", dtype).set("data", data);
  json.set("image_size", image_size).set("classes", classes).set("optimizer", optimizer);
  json.set("learning_rate", learning_rate).set("device", device).set("threads", threads);
  json.set("warmup", warmup).set("steps", steps).set("repeat", repeat);
  return json;
}

Configuration Configuration::from_json(const Json& json) {
  const auto number_at = [&](const char* name) { return static_cast<int>(json.at(name).as_int()); };
  Configuration c;
  c.network = json.at("network").as_string();
  c.strategy = strategy_of(json.at("strategy").as_string());
  c.replicas = number_at("replicas");
  c.servers = number_at("servers");
  c.placement = placement_of(json.at("placement").as_string());
  c.synchronous = json.at("synchronous").as_bool();
  c.batch = json.at("batch").as_int();
  c.dtype = json.at("dtype").as_string();
  c.data = json.at("data").as_string();
  c.image_size = json.at("image_size").as_int();
  c.classes = json.at("classes").as_int();
  c.optimizer = json.at("optimizer").as_string();
  c.learning_rate = json.at("learning_rate").as_double();
  c.device = json.at("device").as_string();
  c.threads = number_at("threads");
  c.warmup = number_at("warmup");
  c.steps = number_at("steps");
  c.repeat = number_at("repeat");
  return c;
}

}  // namespace strata::tools
