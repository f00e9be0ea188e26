#include "strata/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>

#include <set>

#include "checkpoint/safetensors_format.h"
#include "core/atomic_file.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata {
namespace {

at::Tensor checked(const std::string& name, const at::Tensor& tensor) {
  STRATA_CHECK(tensor.defined() && tensor.layout() == c10::kStrided && !tensor.is_quantized(),
               kInvalidArgument, "[safetensors] save: tensor '", name,
               "' is undefined, sparse or quantized; expected a dense one");
  return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
}

}  // namespace

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::map<std::string, at::Tensor> by_name;
  std::vector<checkpoint::TensorRecord> records;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor value = checked(name, tensor);
    STRATA_CHECK(name != "__metadata__" && by_name.emplace(name, value).second, kInvalidArgument,
                 "[safetensors] save: got the name '", name,
                 "' twice, or one that the format keeps for itself");
    records.push_back({.name = name, .dtype = value.scalar_type(), .shape = value.sizes().vec()});
  }
  const std::string header = checkpoint::make_header(records, metadata);

  detail::write_atomically(path, [&](WritableFile& file) {
    file.append(std::as_bytes(std::span(header)));
    for (const checkpoint::TensorRecord& record : records) {
      const at::Tensor& tensor = by_name.at(record.name);
      file.append({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
    }
  });
}

NamedTensors load_safetensors(const std::string& path) {
  const auto file = file_system_of(path).open(path);
  const checkpoint::Header header = checkpoint::read_header(*file, path);
  NamedTensors tensors;
  for (const checkpoint::TensorRecord& record : header.records) {
    at::Tensor tensor;
    try {
      tensor = at::empty(record.shape, record.dtype);
    } catch (const c10::Error&) {
      throw Error(ErrorCode::kResourceExhausted,
                  str_cat("[safetensors] ", path, ": tensor '", record.name,
                          "': no memory for its ", record.end - record.begin, " bytes"));
    }
    const std::span<std::byte> bytes(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
    const size_t got = file->read(header.data_begin + record.begin, bytes);
    STRATA_CHECK(got == bytes.size(), kDataLoss, "[safetensors] ", path, ": tensor '", record.name,
                 "': got ", got, " bytes; expected ", bytes.size(), " (cut short)");
    tensors.emplace_back(record.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace strata
