#include "keras_files/h5_input.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <utility>

namespace strata::keras_files::h5 {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxRank = 16;
// Deflate cannot expand by more than 1032; less than the floor is no danger.
constexpr uint64_t kMaxExpansion = 1100;
constexpr uint64_t kHarmlessBytes = uint64_t{64} << 20;

herr_t take_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  try {
    static_cast<std::vector<std::string>*>(names)->emplace_back(name);
    return 0;
  } catch (...) {  // nothing may be thrown through C
    return -1;
  }
}

}  // namespace

Input::Input(std::span<const std::byte> bytes, std::string source)
    : source_(std::move(source)),
      size_(bytes.size()),
      file_(open_image(bytes.data(), bytes.size(), source_)) {}

std::string Input::where(const std::string& path) const {
  return str_cat("[keras_files] ", source_, ": ", path.empty() ? "/" : path, ": ");
}

Handle Input::root() const { return {H5Gopen2(file_.get(), "/", H5P_DEFAULT), H5Gclose}; }

Input::Object Input::open_member(hid_t group, const std::string& name,
                                 const std::string& path) const {
  H5L_info_t link = {};
  STRATA_CHECK(H5Lget_info(group, name.c_str(), &link, H5P_DEFAULT) >= 0, kDataLoss, where(path),
               "the link cannot be read (", cause(), ")");
  STRATA_CHECK(link.type == H5L_TYPE_HARD, kDataLoss, where(path), "got ",
               link.type == H5L_TYPE_SOFT ? "a soft" : "an external",
               " link; expected the object itself: links could lead out of the file");
  Object object = {.name = name,
                   .handle = Handle(H5Oopen(group, name.c_str(), H5P_DEFAULT), H5Oclose)};
  STRATA_CHECK(object.handle.get() >= 0, kDataLoss, where(path), "damaged (", cause(), ")");
  object.is_group = H5Iget_type(object.handle.get()) == H5I_GROUP;
  return object;
}

std::vector<Input::Object> Input::members(hid_t group, const std::string& path) const {
  std::vector<std::string> names;
  STRATA_CHECK(H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, take_name, &names) >= 0,
               kDataLoss, where(path), "the group's list of members is damaged (", cause(), ")");
  std::ranges::sort(names);
  std::vector<Object> objects;
  for (const std::string& name : names) {
    Object object = open_member(group, name, path.empty() ? name : path + '/' + name);
    const H5I_type_t type = H5Iget_type(object.handle.get());
    if (type == H5I_GROUP || type == H5I_DATASET) objects.push_back(std::move(object));
  }
  return objects;
}

std::optional<Input::Object> Input::open(hid_t group, const std::string& path) const {
  std::optional<Object> object;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    const hid_t parent = object ? object->handle.get() : group;
    if (name.empty() || (object && !object->is_group) ||
        H5Lexists(parent, name.c_str(), H5P_DEFAULT) <= 0) {
      return std::nullopt;
    }
    object = open_member(parent, name, path.substr(0, end));
    begin = end + 1;
  }
  return object;
}

void Input::enter(hid_t group, const std::string& path, int depth) {
  STRATA_CHECK(depth <= kMaxDepth, kDataLoss, where(path), "got groups nested deeper than ",
               kMaxDepth);
  H5O_info_t info = {};
  STRATA_CHECK(H5Oget_info(group, &info) >= 0, kDataLoss, where(path), "damaged (", cause(), ")");
  STRATA_CHECK(seen_.insert(static_cast<uint64_t>(info.addr)).second, kDataLoss, where(path),
               "got a group that stands elsewhere in the file, too; expected a tree");
}

void Input::check_storage(hid_t dataset, const std::string& path) const {
  const Handle plist(H5Dget_create_plist(dataset), H5Pclose);
  STRATA_CHECK(plist.get() >= 0, kDataLoss, where(path), "damaged (", cause(), ")");
  STRATA_CHECK(H5Pget_layout(plist.get()) != H5D_VIRTUAL && H5Pget_external_count(plist.get()) == 0,
               kDataLoss, where(path),
               "got data that lies in another file; expected it in this one");
  const int filters = H5Pget_nfilters(plist.get());
  STRATA_CHECK(filters >= 0, kDataLoss, where(path), "damaged (", cause(), ")");
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    size_t values = 0;
    std::array<char, 64> name = {};
    const H5Z_filter_t filter = H5Pget_filter2(plist.get(), static_cast<unsigned>(i), &flags,
                                               &values, nullptr, name.size(), name.data(), nullptr);
    // Others would be looked for among the machine's plug-ins.
    STRATA_CHECK(filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_SHUFFLE ||
                     filter == H5Z_FILTER_FLETCHER32,
                 kUnimplemented, where(path), "got filter ", filter, " '", name.data(),
                 "'; expected none, gzip, shuffle or fletcher32");
  }
}

std::vector<int64_t> Input::checked_shape(hid_t dataset, size_t item_bytes,
                                          const std::string& path) {
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const H5S_class_t kind = space.get() < 0 ? H5S_NO_CLASS : H5Sget_simple_extent_type(space.get());
  const int rank = kind == H5S_SIMPLE ? H5Sget_simple_extent_ndims(space.get()) : 0;
  STRATA_CHECK((kind == H5S_SIMPLE || kind == H5S_SCALAR) && rank >= 0 && rank <= kMaxRank,
               kDataLoss, where(path), "got no shape of 0 to ", kMaxRank, " dimensions");
  std::array<hsize_t, kMaxRank> dims = {};
  if (rank > 0) H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);

  uint64_t bytes = item_bytes;
  bool overflow = false;
  std::string text;
  std::vector<int64_t> shape;
  for (int i = 0; i < rank; ++i) {
    overflow |= __builtin_mul_overflow(bytes, uint64_t{dims[i]}, &bytes) || dims[i] >> 62 != 0;
    text += str_cat(i == 0 ? "" : ", ", dims[i]);
    shape.push_back(static_cast<int64_t>(dims[i]));
  }
  const uint64_t stored = H5Dget_storage_size(dataset);
  const auto within = [](uint64_t declared, uint64_t there) {
    return declared <= kHarmlessBytes || declared / kMaxExpansion <= there;
  };
  overflow |= __builtin_add_overflow(declared_bytes_, bytes, &declared_bytes_);
  STRATA_CHECK(
      !overflow && within(bytes, std::min(stored, size_)) && within(declared_bytes_, size_),
      kDataLoss, where(path), "got shape [", text, "] with ", stored, " bytes in a file of ", size_,
      "; the shape asks for more memory than so many bytes can fill");
  return shape;
}

namespace {

struct Element {
  at::ScalarType dtype;
  Handle type;  // in memory
};

Handle copy_of(hid_t type) { return {H5Tcopy(type), H5Tclose}; }

std::optional<Element> integer_of(hid_t type) {
  const bool is_signed = H5Tget_sign(type) != H5T_SGN_NONE;
  switch (H5Tget_size(type)) {
    case 1:
      return is_signed ? Element{at::kChar, copy_of(H5T_NATIVE_INT8)}
                       : Element{at::kByte, copy_of(H5T_NATIVE_UINT8)};
    case 2:
      return is_signed ? Element{at::kShort, copy_of(H5T_NATIVE_INT16)}
                       : Element{at::kUInt16, copy_of(H5T_NATIVE_UINT16)};
    case 4:
      return is_signed ? Element{at::kInt, copy_of(H5T_NATIVE_INT32)}
                       : Element{at::kUInt32, copy_of(H5T_NATIVE_UINT32)};
    case 8:
      return is_signed ? Element{at::kLong, copy_of(H5T_NATIVE_INT64)}
                       : Element{at::kUInt64, copy_of(H5T_NATIVE_UINT64)};
    default:
      return std::nullopt;
  }
}

std::optional<Element> real_of(hid_t type) {
  switch (H5Tget_size(type)) {
    case 2: {
      size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
      H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits);
      if (exponent_bits == 5 && mantissa_bits == 10) return Element{at::kHalf, half_type()};
      return std::nullopt;
    }
    case 4:
      return Element{at::kFloat, copy_of(H5T_NATIVE_FLOAT)};
    case 8:
      return Element{at::kDouble, copy_of(H5T_NATIVE_DOUBLE)};
    default:
      return std::nullopt;
  }
}

}  // namespace

at::Tensor Input::read(hid_t dataset, const std::string& path) {
  check_storage(dataset, path);
  const Handle type(H5Dget_type(dataset), H5Tclose);
  STRATA_CHECK(type.get() >= 0, kDataLoss, where(path), "damaged (", cause(), ")");
  const H5T_class_t kind = H5Tget_class(type.get());
  std::optional<Element> element;
  if (kind == H5T_INTEGER) element = integer_of(type.get());
  if (kind == H5T_FLOAT) element = real_of(type.get());
  if (kind == H5T_ENUM && H5Tget_size(type.get()) == 1) {
    element = Element{at::kBool, copy_of(type.get())};
  }
  if (kind == H5T_OPAQUE && H5Tget_size(type.get()) == 2 &&
      string_attribute(dataset, "dtype", path) == kBfloat16) {
    element = Element{at::kBFloat16, copy_of(type.get())};
  }
  STRATA_CHECK(element, kUnimplemented, where(path), "got elements of ", H5Tget_size(type.get()),
               " bytes of HDF5's class ", static_cast<int>(kind),
               "; expected float64, float32, float16, bfloat16, integers or bool");

  const std::vector<int64_t> shape = checked_shape(dataset, H5Tget_size(type.get()), path);
  at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(element->dtype));
  if (tensor.numel() == 0) return tensor;
  STRATA_CHECK(H5Dread(dataset, element->type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       tensor.mutable_data_ptr()) >= 0,
               kDataLoss, where(path), "the data is damaged or cut short (", cause(), ")");
  if (element->dtype == at::kBool) {
    auto* values = static_cast<uint8_t*>(tensor.mutable_data_ptr());
    std::transform(values, values + tensor.numel(), values, [](uint8_t v) { return v != 0; });
  }
  return tensor;
}

std::optional<std::vector<std::string>> Input::strings_attribute(hid_t object,
                                                                 const std::string& name,
                                                                 const std::string& path) const {
  if (H5Aexists(object, name.c_str()) <= 0) {
    std::vector<std::string> joined;  // beyond 64 kB Keras splits a list
    for (int i = 0; H5Aexists(object, (name + std::to_string(i)).c_str()) > 0; ++i) {
      const auto part = strings_attribute(object, name + std::to_string(i), path);
      joined.insert(joined.end(), part->begin(), part->end());
    }
    if (joined.empty()) return std::nullopt;
    return joined;
  }
  const std::string attribute_path = str_cat(path.empty() ? "/" : path, " attribute ", name);
  const Handle attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose);
  STRATA_CHECK(attribute.get() >= 0, kDataLoss, where(attribute_path), "damaged (", cause(), ")");
  const Handle type(H5Aget_type(attribute.get()), H5Tclose);
  const Handle space(H5Aget_space(attribute.get()), H5Sclose);
  const hssize_t count = space.get() < 0 ? -1 : H5Sget_simple_extent_npoints(space.get());
  const size_t width = type.get() < 0 ? 0 : H5Tget_size(type.get());
  // Keras writes an empty list as numpy's float64 array of no elements.
  if (count == 0) return std::vector<std::string>();
  STRATA_CHECK(count > 0 && width > 0 && H5Tget_class(type.get()) == H5T_STRING, kDataLoss,
               where(attribute_path), "got no text");
  STRATA_CHECK(static_cast<uint64_t>(count) <= size_ / width + 1, kDataLoss, where(attribute_path),
               "got ", count, " strings in a file of ", size_, " bytes");

  std::vector<std::string> strings;
  if (H5Tis_variable_str(type.get()) > 0) {
    std::vector<char*> pointers(static_cast<size_t>(count), nullptr);
    STRATA_CHECK(H5Aread(attribute.get(), type.get(), pointers.data()) >= 0, kDataLoss,
                 where(attribute_path), "damaged (", cause(), ")");
    for (const char* pointer : pointers) strings.emplace_back(pointer == nullptr ? "" : pointer);
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, pointers.data());
    return strings;
  }
  std::string text(static_cast<size_t>(count) * width, '\0');
  STRATA_CHECK(H5Aread(attribute.get(), type.get(), text.data()) >= 0, kDataLoss,
               where(attribute_path), "damaged (", cause(), ")");
  for (hssize_t i = 0; i < count; ++i) {
    std::string one = text.substr(static_cast<size_t>(i) * width, width);
    one.erase(std::min(one.find('\0'), one.size()));
    strings.push_back(std::move(one));
  }
  return strings;
}

std::optional<std::string> Input::string_attribute(hid_t object, const std::string& name,
                                                   const std::string& path) const {
  if (H5Aexists(object, name.c_str()) <= 0) return std::nullopt;
  auto strings = strings_attribute(object, name, path);
  STRATA_CHECK(strings->size() == 1, kDataLoss, where(path), "attribute ", name, ": got ",
               strings->size(), " strings; expected one");
  return std::move(strings->front());
}

}  // namespace strata::keras_files::h5
