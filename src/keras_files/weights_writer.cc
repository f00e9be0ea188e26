#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "keras_files/h5_input.h"
#include "keras_files/hdf5.h"
#include "keras_files/memory_file.h"
#include "keras_files/weights_image.h"

namespace strata::keras_files {
namespace {

using h5::Handle;

class Writer {
 public:
  explicit Writer(hid_t file) : file_(file) {}

  void write(const WeightsGroup& group, const std::string& path) {
    if (group.name || !group.vars.empty() || !group.named_vars.empty()) {
      write_vars(group, path.empty() ? "vars" : path + "/vars");
    }
    for (const auto& [name, child] : group.groups) {
      STRATA_CHECK(!name.empty() && name != "vars" && name != "." &&
                       name.find('/') == std::string::npos && name.find('\0') == std::string::npos,
                   kInvalidArgument, "[keras_files] save: ", path.empty() ? "/" : path,
                   ": got a group named '", name, "', which HDF5 or Keras keeps for itself");
      const std::string inner = path.empty() ? name : path + '/' + name;
      make_group(inner);
      write(child, inner);
    }
  }

 private:
  void check(bool good, const std::string& path) const {
    STRATA_CHECK(good, kResourceExhausted, "[keras_files] save: ", path, ": HDF5 cannot write (",
                 h5::cause(), ")");
  }

  Handle make_group(const std::string& path) const {
    Handle group(H5Gcreate2(file_, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
    check(group.get() >= 0, path);
    return group;
  }

  void write_string(hid_t object, const char* name, const std::string& value,
                    const std::string& path) const {
    const Handle type = h5::string_type();
    const Handle scalar(H5Screate(H5S_SCALAR), H5Sclose);
    const Handle attribute(
        H5Acreate2(object, name, type.get(), scalar.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    const char* text = value.c_str();
    check(attribute.get() >= 0 && H5Awrite(attribute.get(), type.get(), &text) >= 0, path);
  }

  void write_vars(const WeightsGroup& group, const std::string& path) const {
    const Handle vars = make_group(path);
    if (group.name) write_string(vars.get(), "name", *group.name, path);
    for (size_t i = 0; i < group.vars.size(); ++i) {
      write_dataset(vars.get(), std::to_string(i), group.vars[i], path);
    }
    for (const auto& [name, tensor] : group.named_vars) {
      write_dataset(vars.get(), name, tensor, path);
    }
  }

  void write_dataset(hid_t vars, const std::string& name, const at::Tensor& tensor,
                     const std::string& vars_path) const {
    const std::string path = vars_path + '/' + name;
    STRATA_CHECK(!name.empty() && name != "." && name.find('/') == std::string::npos,
                 kInvalidArgument, "[keras_files] save: ", vars_path, ": got a dataset named '",
                 name, "'");
    STRATA_CHECK(tensor.defined() && tensor.layout() == c10::kStrided && !tensor.is_quantized(),
                 kInvalidArgument, "[keras_files] save: ", path,
                 ": the tensor is undefined, sparse or quantized; expected a dense one");
    const Handle type = type_of(tensor.scalar_type(), path);
    const at::Tensor value = tensor.detach().resolve_neg().cpu().contiguous();
    const std::vector<hsize_t> dims(value.sizes().begin(), value.sizes().end());
    const Handle space(dims.empty()
                           ? H5Screate(H5S_SCALAR)
                           : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                       H5Sclose);
    const Handle plist(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_obj_track_times(plist.get(), false);
    const Handle dataset(H5Dcreate2(vars, name.c_str(), type.get(), space.get(), H5P_DEFAULT,
                                    plist.get(), H5P_DEFAULT),
                         H5Dclose);
    check(dataset.get() >= 0, path);
    if (value.numel() > 0) {
      check(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                     value.const_data_ptr()) >= 0,
            path);
    }
    if (tensor.scalar_type() == at::kBFloat16) {
      write_string(dataset.get(), "dtype", h5::kBfloat16, path);
    }
  }

  static Handle copy_of(hid_t type) { return {H5Tcopy(type), H5Tclose}; }

  /// In the file; the processor's own order, which is little-endian wherever libtorch runs.
  static Handle type_of(at::ScalarType dtype, const std::string& path) {
    switch (dtype) {
      case at::kDouble:
        return copy_of(H5T_IEEE_F64LE);
      case at::kFloat:
        return copy_of(H5T_IEEE_F32LE);
      case at::kHalf:
        return h5::half_type();
      case at::kBFloat16: {
        Handle type(H5Tcreate(H5T_OPAQUE, 2), H5Tclose);
        H5Tset_tag(type.get(), "");
        return type;
      }
      case at::kLong:
        return copy_of(H5T_STD_I64LE);
      case at::kInt:
        return copy_of(H5T_STD_I32LE);
      case at::kShort:
        return copy_of(H5T_STD_I16LE);
      case at::kChar:
        return copy_of(H5T_STD_I8LE);
      case at::kByte:
        return copy_of(H5T_STD_U8LE);
      case at::kUInt16:
        return copy_of(H5T_STD_U16LE);
      case at::kUInt32:
        return copy_of(H5T_STD_U32LE);
      case at::kUInt64:
        return copy_of(H5T_STD_U64LE);
      case at::kBool: {  // as h5py: an enumeration of a byte
        Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
        const int8_t no = 0, yes = 1;
        H5Tenum_insert(type.get(), "FALSE", &no);
        H5Tenum_insert(type.get(), "TRUE", &yes);
        return type;
      }
      default:
        throw Error(ErrorCode::kInvalidArgument,
                    str_cat("[keras_files] save: ", path, ": got dtype ", c10::toString(dtype),
                            "; expected float64, float32, float16, bfloat16, integers or bool"));
    }
  }

  hid_t file_;
};

/// A file that is nowhere listed and ends with its owner.
class TemporaryFile final : public ReadableFile {
 public:
  TemporaryFile()
      : path_((std::filesystem::temp_directory_path() / "strata-weights-XXXXXX").string()),
        file_(::mkstemp(path_.data())) {
    STRATA_CHECK(file_ >= 0, kResourceExhausted, "[keras_files] save: no temporary file ", path_,
                 ": ", std::strerror(errno), "; set TMPDIR to a folder with room");
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() override {
    ::close(file_);
    ::unlink(path_.c_str());
  }

  const std::string& path() const { return path_; }

  size_t read(uint64_t offset, std::span<std::byte> out) const override {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got =
          ::pread(file_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      STRATA_CHECK(got >= 0, kUnavailable, "[keras_files] save: ", path_, ": ",
                   std::strerror(errno));
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

  uint64_t size() const override { return std::filesystem::file_size(path_); }

 private:
  std::string path_;
  int file_;
};

void write_file(hid_t file, const WeightsGroup& weights) {
  STRATA_CHECK(file >= 0, kResourceExhausted, "[keras_files] save: HDF5 cannot make a file (",
               h5::cause(), ")");
  Writer(file).write(weights, "");
  STRATA_CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, kResourceExhausted,
               "[keras_files] save: HDF5 cannot write (", h5::cause(), ")");
}

}  // namespace

std::unique_ptr<ReadableFile> make_weights_image(const WeightsGroup& weights,
                                                 int64_t max_in_memory) {
  const h5::Session session;
  if (weights.num_bytes() > max_in_memory) {
    auto temporary = std::make_unique<TemporaryFile>();
    const Handle file(H5Fcreate(temporary->path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                      H5Fclose);
    write_file(file.get(), weights);
    return temporary;
  }
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  constexpr size_t kIncrement = size_t{1} << 20;
  H5Pset_fapl_core(access.get(), kIncrement, /*backing_store=*/false);
  const Handle file(H5Fcreate("strata-weights", H5F_ACC_TRUNC, H5P_DEFAULT, access.get()),
                    H5Fclose);
  write_file(file.get(), weights);
  const ssize_t size = H5Fget_file_image(file.get(), nullptr, 0);
  STRATA_CHECK(size > 0, kInternal, "[keras_files] save: HDF5 has no image (", h5::cause(), ")");
  std::string bytes(static_cast<size_t>(size), '\0');
  STRATA_CHECK(H5Fget_file_image(file.get(), bytes.data(), bytes.size()) == size, kInternal,
               "[keras_files] save: HDF5 has no image (", h5::cause(), ")");
  return std::make_unique<MemoryFile>(std::move(bytes));
}

}  // namespace strata::keras_files
