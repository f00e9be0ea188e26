#include "checkpoint/describe.h"

#include <chrono>
#include <ctime>
#include <iomanip>
#include <ostream>

#include "checkpoint/reader.h"
#include "checkpoint/safetensors_format.h"
#include "core/join.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) { return '[' + join(shape) + ']'; }

std::string time_text(double seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm utc = {};
  gmtime_r(&time, &utc);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text;
}

std::string value_text(const CheckpointValue& value) {
  constexpr size_t kMaxShown = 100;
  if (const auto* text = std::get_if<std::string>(&value)) {
    return str_cat('"', text->substr(0, kMaxShown), text->size() > kMaxShown ? "..." : "", '"');
  }
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  return str_cat(std::get<double>(value));
}

void print_tensor(std::ostream& out, const std::string& name, at::ScalarType dtype,
                  const std::vector<int64_t>& shape, const std::string& note = {}) {
  out << "  " << std::left << std::setw(48) << name << ' ' << std::setw(5)
      << checkpoint::dtype_name(dtype, name) << ' ' << shape_text(shape) << note << '\n';
}

void print_manifest(std::ostream& out, const checkpoint::Manifest& manifest) {
  uint64_t bytes = 0;
  for (const auto& shard : manifest.shards) bytes += shard.bytes;
  out << "number " << manifest.number << ", saved " << time_text(manifest.saved_at) << " by strata "
      << manifest.strata_version << '\n'
      << "plan: " << manifest.plan.replicas << " replicas of " << manifest.plan.strategy << ", "
      << manifest.plan.threads_per_replica << " threads each, sums in order '"
      << manifest.plan.order << "'";
  if (!manifest.plan.kernels.empty()) out << ", kernels " << manifest.plan.kernels;
  out << '\n';
  for (const auto& [name, value] : manifest.metrics)
    out << "metric " << name << ": " << printed(value) << '\n';
  out << manifest.shards.size() << (manifest.shards.size() == 1 ? " shard, " : " shards, ") << bytes
      << " bytes\n";
  for (const auto& shard : manifest.shards) {
    out << "  " << shard.file << ' ' << shard.bytes << " sha256 " << shard.sha256 << '\n';
  }
  out << manifest.tensors.size() << " tensors\n";
  for (const auto& tensor : manifest.tensors) {
    if (!tensor.same_as.empty()) {
      out << "  " << tensor.name << " is " << tensor.same_as << '\n';
      continue;
    }
    print_tensor(out, tensor.name, tensor.dtype, tensor.shape,
                 tensor.replicas.empty()
                     ? ""
                     : str_cat(", and one for each of ", tensor.replicas.size(), " replicas"));
  }
  out << manifest.values.size() << " values\n";
  for (const auto& [name, value] : manifest.values) {
    out << "  " << std::left << std::setw(48) << name << ' ' << value_text(value) << '\n';
  }
}

}  // namespace

bool is_checkpoint(const std::string& path) {
  try {
    const FileSystem& files = file_system_of(path);
    const auto info = files.info(path);
    return info && info->is_folder &&
           files.info(join_path(path, checkpoint::kManifestFile)).has_value();
  } catch (const Error&) {
    return false;
  }
}

bool describe_checkpoint(const std::string& path, std::ostream& out,
                         const DescribeOptions& options) {
  try {
    print_manifest(out, checkpoint::check_quickly(path));
    if (!options.verify) return true;
    (void)checkpoint::load_checkpoint(path);
    out << "all checksums are right\n";
    return true;
  } catch (const Error& error) {
    out << error.what() << '\n';
    return false;
  }
}

bool describe_safetensors(const std::string& path, std::ostream& out) {
  try {
    const auto file = file_system_of(path).open(path);
    const checkpoint::Header header = checkpoint::read_header(*file, path);
    out << header.records.size() << " tensors, " << file->size() << " bytes\n";
    for (const auto& [key, value] : header.metadata) out << "  " << key << ": " << value << '\n';
    for (const auto& record : header.records) {
      print_tensor(out, record.name, record.dtype, record.shape);
    }
    return true;
  } catch (const Error& error) {
    out << error.what() << '\n';
    return false;
  }
}

}  // namespace strata
