#include "checkpoint/manifest.h"

#include <charconv>
#include <cmath>

#include "checkpoint/safetensors_format.h"
#include "core/sha256.h"
#include "strata/core/error.h"
#include "strata/core/json.h"

namespace strata::checkpoint {

void throw_damaged(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::kDataLoss, str_cat("[checkpoint] ", path, ": ", what));
}

namespace {

constexpr std::string_view kFormat = "strata.checkpoint";
constexpr std::string_view kSealBegin = ",\n  \"sha256\": \"";
constexpr std::string_view kSealEnd = "\"\n}\n";
constexpr size_t kDigestSize = 64;

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex_digest();
}

/// JSON has no NaN and no infinity.
Json json_of(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double double_of(const Json& json) {
  if (!json.is_string()) return json.as_double();
  double value = 0;
  const std::string& text = json.as_string();
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  STRATA_CHECK(parsed.ec == std::errc() && parsed.ptr == text.data() + text.size(), kDataLoss,
               "[checkpoint] got '", text, "'; expected a number");
  return value;
}

Json json_of(const CheckpointValue& value) {
  Json json = Json::object();
  if (const auto* boolean = std::get_if<bool>(&value)) {
    json.set("bool", *boolean);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    json.set("int", *integer);
  } else if (const auto* number = std::get_if<double>(&value)) {
    json.set("double", json_of(*number));
  } else {
    json.set("string", std::get<std::string>(value));
  }
  return json;
}

CheckpointValue value_of(const Json& json) {
  if (const Json* value = json.find("bool")) return value->as_bool();
  if (const Json* value = json.find("int")) return value->as_int();
  if (const Json* value = json.find("double")) return double_of(*value);
  return json.at("string").as_string();
}

Json json_of(const std::vector<ManifestPiece>& pieces) {
  Json json = Json::array();
  for (const ManifestPiece& piece : pieces) {
    json.push_back(Json::array({piece.shard, piece.key}));
  }
  return json;
}

std::vector<ManifestPiece> pieces_of(const Json& json, size_t shards) {
  std::vector<ManifestPiece> pieces;
  for (const Json& each : json.as_array()) {
    const Json::Array& pair = each.as_array();
    STRATA_CHECK(pair.size() == 2, kDataLoss, "[checkpoint] expected [shard, key]");
    pieces.push_back({.shard = pair[0].as_int(), .key = pair[1].as_string()});
    STRATA_CHECK(pieces.back().shard >= 0 && static_cast<size_t>(pieces.back().shard) < shards,
                 kDataLoss, "[checkpoint] got shard ", pieces.back().shard, " of ", shards);
  }
  return pieces;
}

Json json_of(const ManifestTensor& tensor) {
  Json json = Json::object();
  json.set("name", tensor.name);
  if (!tensor.same_as.empty()) return json.set("same_as", tensor.same_as);
  Json shape = Json::array();
  for (const int64_t size : tensor.shape) shape.push_back(size);
  json.set("dtype", dtype_name(tensor.dtype, tensor.name));
  json.set("shape", std::move(shape));
  json.set("pieces", json_of(tensor.pieces));
  if (!tensor.replicas.empty()) {
    Json replicas = Json::array();
    for (const auto& pieces : tensor.replicas) replicas.push_back(json_of(pieces));
    json.set("replicas", std::move(replicas));
  }
  return json;
}

ManifestTensor tensor_of(const Json& json, size_t shards, const std::string& path) {
  ManifestTensor tensor{.name = json.at("name").as_string()};
  if (const Json* same_as = json.find("same_as")) {
    tensor.same_as = same_as->as_string();
    return tensor;
  }
  tensor.dtype = dtype_of(json.at("dtype").as_string(), tensor.name, path);
  for (const Json& size : json.at("shape").as_array()) {
    tensor.shape.push_back(size.as_int());
    STRATA_CHECK(tensor.shape.back() >= 0, kDataLoss, "[checkpoint] got size ", size.as_int());
  }
  tensor.pieces = pieces_of(json.at("pieces"), shards);
  if (const Json* replicas = json.find("replicas")) {
    for (const Json& each : replicas->as_array()) {
      tensor.replicas.push_back(pieces_of(each, shards));
    }
  }
  return tensor;
}

Manifest manifest_of(const Json& json, const std::string& path) {
  Manifest manifest;
  manifest.strata_version = json.at("strata").as_string();
  manifest.number = json.at("number").as_int();
  manifest.saved_at = json.at("saved_at").as_double();
  for (const auto& [name, value] : json.at("metrics").as_object()) {
    manifest.metrics[name] = double_of(value);
  }
  const Json& plan = json.at("plan");
  manifest.plan = {.strategy = plan.at("strategy").as_string(),
                   .replicas = plan.at("replicas").as_int(),
                   .threads_per_replica = plan.at("threads_per_replica").as_int(),
                   .order = plan.at("order").as_string()};
  if (const Json* kernels = plan.find("kernels")) manifest.plan.kernels = kernels->as_string();
  for (const Json& shard : json.at("shards").as_array()) {
    manifest.shards.push_back({.file = shard.at("file").as_string(),
                               .bytes = static_cast<uint64_t>(shard.at("bytes").as_int()),
                               .sha256 = shard.at("sha256").as_string()});
    // A name from a damaged file must not lead elsewhere.
    STRATA_CHECK(manifest.shards.back().file.find('/') == std::string::npos, kDataLoss,
                 "[checkpoint] got shard '", manifest.shards.back().file,
                 "'; expected a name without '/'");
  }
  for (const Json& tensor : json.at("tensors").as_array()) {
    manifest.tensors.push_back(tensor_of(tensor, manifest.shards.size(), path));
  }
  for (const auto& [name, value] : json.at("values").as_object()) {
    manifest.values.emplace_back(name, value_of(value));
  }
  return manifest;
}

}  // namespace

std::string write_manifest(const Manifest& manifest) {
  Json metrics = Json::object();
  for (const auto& [name, value] : manifest.metrics) metrics.set(name, json_of(value));
  Json plan = Json::object();
  plan.set("strategy", manifest.plan.strategy)
      .set("replicas", manifest.plan.replicas)
      .set("threads_per_replica", manifest.plan.threads_per_replica)
      .set("order", manifest.plan.order);
  if (!manifest.plan.kernels.empty()) plan.set("kernels", manifest.plan.kernels);
  Json shards = Json::array();
  for (const ManifestShard& shard : manifest.shards) {
    Json json = Json::object();
    json.set("file", shard.file)
        .set("bytes", static_cast<int64_t>(shard.bytes))
        .set("sha256", shard.sha256);
    shards.push_back(std::move(json));
  }
  Json tensors = Json::array();
  for (const ManifestTensor& tensor : manifest.tensors) tensors.push_back(json_of(tensor));
  Json::Object values;
  for (const auto& [name, value] : manifest.values) values.emplace_back(name, json_of(value));

  Json json = Json::object();
  json.set("format", kFormat)
      .set("version", manifest.version)
      .set("strata", manifest.strata_version)
      .set("number", manifest.number)
      .set("saved_at", manifest.saved_at)
      .set("metrics", std::move(metrics))
      .set("plan", std::move(plan))
      .set("shards", std::move(shards))
      .set("tensors", std::move(tensors))
      .set("values", Json(std::move(values)));
  std::string text = json.dump(2);
  text.resize(text.size() - 2);  // the last "\n}"
  const std::string digest = sha256_of(text);
  return text.append(kSealBegin).append(digest).append(kSealEnd);
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  Json json;
  try {
    json = Json::parse(text);
    (void)json.as_object();
  } catch (const Error& error) {
    throw_damaged(path, str_cat("got what is not a manifest (", error.what(), ")"));
  }
  const Json* format = json.find("format");
  if (format == nullptr || !format->is_string() || format->as_string() != kFormat) {
    throw_damaged(path, "got a foreign file; expected \"format\": \"strata.checkpoint\"");
  }
  const Json* version = json.find("version");
  if (version == nullptr || !version->is_int()) throw_damaged(path, "got no format version");
  STRATA_CHECK(version->as_int() == kFormatVersion, kUnimplemented, "[checkpoint] ", path,
               ": got format version ", version->as_int(), "; this strata reads ", kFormatVersion,
               "; read it with the strata that wrote it");
  const size_t seal = kSealBegin.size() + kDigestSize + kSealEnd.size();
  const std::string_view body = text.substr(0, text.size() - std::min(seal, text.size()));
  const std::string digest = sha256_of(body);
  if (text.substr(body.size()) != str_cat(kSealBegin, digest, kSealEnd)) {
    throw_damaged(path, str_cat("got bytes whose SHA-256 is ", digest,
                                "; expected the one in its last member: the file was changed"));
  }
  try {
    return manifest_of(json, path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss) throw;
    throw_damaged(path, error.what());
  }
}

}  // namespace strata::checkpoint
