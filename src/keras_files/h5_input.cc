#include "keras_files/h5_input.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "core/checked_size.h"

namespace strata::keras_files::h5 {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxRank = 16;

/// Runs `work`, and puts `where` before what it says.
template <typename Work>
auto placed(const std::string& where, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), where + error.what());
  }
}

File open_file(std::span<const std::byte> bytes, Budget& budget, const std::string& source) {
  try {
    return File(bytes, budget);
  } catch (const Error& error) {
    throw Error(error.code(), str_cat("[keras_files] ", source, ": got ", bytes.size(),
                                      " bytes that are no whole HDF5 file (", error.what(), ")"));
  }
}

}  // namespace

Input::Input(std::span<const std::byte> bytes, std::string source, const ReadLimits& limits)
    : source_(std::move(source)),
      budget_(bytes.size(), limits),
      file_(open_file(bytes, budget_, source_)) {}

std::string Input::where(const std::string& path) const {
  return str_cat("[keras_files] ", source_, ": ", path.empty() ? "/" : path, ": ");
}

std::shared_ptr<const ObjectHeader> Input::header_at(uint64_t address) {
  auto& header = headers_[address];
  if (header == nullptr) header = std::make_shared<const ObjectHeader>(file_.object(address));
  return header;
}

Input::Object Input::root() {
  return placed(where(""), [&] {
    return Object{.name = "", .address = file_.root(), .header = header_at(file_.root())};
  });
}

Input::Object Input::open_link(const Link& link, const std::string& path) {
  STRATA_CHECK(link.kind == Link::Kind::kHard, kDataLoss, where(path), "got ",
               link.kind == Link::Kind::kSoft ? "a soft" : "an external",
               " link; expected the object itself: links could lead out of the file");
  return placed(where(path), [&] {
    return Object{.name = link.name, .address = link.address, .header = header_at(link.address)};
  });
}

std::vector<Input::Object> Input::members(const Object& group, const std::string& path) {
  std::vector<Object> objects;
  std::set<std::string> names;
  for (const Link& link : group.header->links) {
    const std::string inner = path.empty() ? link.name : path + '/' + link.name;
    STRATA_CHECK(names.insert(link.name).second, kDataLoss, where(inner),
                 "damaged (two members of one name)");
    Object object = open_link(link, inner);
    if (object.header->is_group || object.header->is_dataset) objects.push_back(std::move(object));
  }
  std::ranges::sort(objects, {}, &Object::name);
  return objects;
}

std::optional<Input::Object> Input::open(const Object& group, const std::string& path) {
  std::optional<Object> object;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    const std::vector<Link>& links = object ? object->header->links : group.header->links;
    const auto link = std::ranges::find(links, name, &Link::name);
    if (link == links.end()) return std::nullopt;
    object = open_link(Link(*link), path.substr(0, end));
    begin = end + 1;
  }
  return object;
}

void Input::enter(const Object& group, const std::string& path, int depth) {
  STRATA_CHECK(depth <= kMaxDepth, kDataLoss, where(path), "got groups nested deeper than ",
               kMaxDepth);
  STRATA_CHECK(seen_.insert(group.address).second, kDataLoss, where(path),
               "got a group that has a second place in the file; expected a tree");
}

void Input::check_storage(const Object& dataset, const std::string& path) const {
  STRATA_CHECK(
      !dataset.header->is_external && dataset.header->layout.kind != Layout::Kind::kVirtual,
      kDataLoss, where(path), "got data in another file; expected it in this one");
  for (const Filter& filter : dataset.header->filters) {
    STRATA_CHECK(filter.id >= 1 && filter.id <= 3, kUnimplemented, where(path), "got filter ",
                 filter.id, " '", filter.name, "'; expected none, gzip, shuffle or fletcher32");
  }
}

std::vector<int64_t> Input::checked_shape(const Object& dataset, const std::string& path) {
  const ObjectHeader& header = *dataset.header;
  STRATA_CHECK(header.has_shape && header.shape.size() <= kMaxRank, kDataLoss, where(path),
               "got no shape of 0 to ", kMaxRank, " dimensions");
  std::string text;
  std::vector<int64_t> shape;
  for (const uint64_t dim : header.shape) {
    text += str_cat(shape.empty() ? "" : ", ", dim);
    shape.push_back(static_cast<int64_t>(dim));
  }
  std::vector<int64_t> factors = shape;  // those of 2^63 and more are below zero
  factors.push_back(static_cast<int64_t>(header.type.size));
  const auto bytes = strata::detail::checked_product(std::span<const int64_t>(factors));
  const uint64_t stored = placed(where(path), [&] { return file_.stored_size(header); });
  STRATA_CHECK(bytes && can_become(std::min(stored, file_.size()), static_cast<uint64_t>(*bytes)),
               kDataLoss, where(path), "got shape [", text, "] with ", stored,
               " bytes in a file of ", file_.size(),
               "; the shape asks for more memory than so many bytes can fill");
  placed(where(path), [&] { budget_.unpack(static_cast<uint64_t>(*bytes)); });
  return shape;
}

namespace {

std::optional<at::ScalarType> integer_of(const Datatype& type) {
  switch (type.size) {
    case 1:
      return type.is_signed ? at::kChar : at::kByte;
    case 2:
      return type.is_signed ? at::kShort : at::kUInt16;
    case 4:
      return type.is_signed ? at::kInt : at::kUInt32;
    case 8:
      return type.is_signed ? at::kLong : at::kUInt64;
    default:
      return std::nullopt;
  }
}

std::optional<at::ScalarType> real_of(const Datatype& type) {
  const auto is = [&](uint64_t size, int exponent, int mantissa) {
    return type.size == size && type.exponent_bits == exponent && type.mantissa_bits == mantissa;
  };
  if (is(2, 5, 10)) return at::kHalf;
  if (is(4, 8, 23)) return at::kFloat;
  if (is(8, 11, 52)) return at::kDouble;
  return std::nullopt;
}

}  // namespace

at::ScalarType Input::dtype_of(const Object& dataset, const std::string& path) {
  using Class = Datatype::Class;
  const Datatype& type = dataset.header->type;
  std::optional<at::ScalarType> dtype;
  if (type.kind == Class::kInteger && type.is_plain) dtype = integer_of(type);
  if (type.kind == Class::kReal && type.is_plain) dtype = real_of(type);
  if (type.kind == Class::kEnum && type.size == 1) dtype = at::kBool;
  if (type.kind == Class::kOpaque && type.size == 2 &&
      string_attribute(dataset, "dtype", path) == kBfloat16) {
    dtype = at::kBFloat16;
  }
  STRATA_CHECK(dtype, kUnimplemented, where(path), "got elements of ", type.size,
               " bytes of HDF5's class ", type.number,
               "; expected float64, float32, float16, bfloat16, integers or bool");
  return *dtype;
}

at::Tensor Input::read(const Object& dataset, const std::string& path) {
  check_storage(dataset, path);
  const at::ScalarType dtype = dtype_of(dataset, path);
  const std::vector<int64_t> shape = checked_shape(dataset, path);
  at::Tensor tensor;
  try {
    tensor = at::zeros(shape, at::TensorOptions().dtype(dtype));
  } catch (const c10::Error&) {
    throw Error(ErrorCode::kResourceExhausted,
                str_cat(where(path), "no memory for ", at::IntArrayRef(shape), " of ", dtype));
  }
  if (tensor.numel() == 0) return tensor;
  const std::span<std::byte> bytes(static_cast<std::byte*>(tensor.mutable_data_ptr()),
                                   tensor.nbytes());
  try {
    file_.read(*dataset.header, bytes);
  } catch (const Error& error) {
    throw Error(error.code(),
                str_cat(where(path), "the data is damaged or cut short (", error.what(), ")"));
  }
  if (dataset.header->type.big_endian) {
    const auto item = static_cast<long>(dataset.header->type.size);
    for (auto at = bytes.begin(); at != bytes.end(); at += item) std::reverse(at, at + item);
  }
  if (dtype == at::kBool) {
    std::ranges::transform(bytes, bytes.begin(),
                           [](std::byte b) { return std::byte{b != std::byte{0}}; });
  }
  return tensor;
}

std::optional<std::vector<std::string>> Input::strings_attribute(const Object& object,
                                                                 const std::string& name,
                                                                 const std::string& path) {
  const std::vector<Attribute>& attributes = object.header->attributes;
  const auto attribute = std::ranges::find(attributes, name, &Attribute::name);
  if (attribute == attributes.end()) {
    std::vector<std::string> joined;  // beyond 64 kB Keras splits a list
    for (int i = 0;; ++i) {
      const std::string part = name + std::to_string(i);
      if (std::ranges::count(attributes, part, &Attribute::name) == 0) break;
      const auto strings = strings_attribute(object, part, path);
      joined.insert(joined.end(), strings->begin(), strings->end());
    }
    if (joined.empty()) return std::nullopt;
    return joined;
  }
  const std::string here = where(str_cat(path.empty() ? "/" : path, " attribute ", name));
  // Keras writes an empty list as numpy's float64 array of no elements.
  if (attribute->count == 0) return std::vector<std::string>();
  if (attribute->type.is_text) return placed(here, [&] { return file_.texts(*attribute); });
  const uint64_t width = attribute->type.size;
  STRATA_CHECK(attribute->type.kind == Datatype::Class::kString && width > 0, kDataLoss, here,
               "got no text");
  STRATA_CHECK(attribute->count <= attribute->data.size() / width, kDataLoss, here, "got ",
               attribute->count, " strings in ", attribute->data.size(), " bytes");
  placed(here, [&] { budget_.copy(attribute->count * (width + sizeof(std::string))); });
  std::vector<std::string> strings;
  Cursor cursor(attribute->data, "an attribute");
  for (uint64_t i = 0; i < attribute->count; ++i) {
    std::string one = cursor.text(width);
    one.erase(std::min(one.find('\0'), one.size()));
    strings.push_back(std::move(one));
  }
  return strings;
}

std::optional<std::string> Input::string_attribute(const Object& object, const std::string& name,
                                                   const std::string& path) {
  if (std::ranges::count(object.header->attributes, name, &Attribute::name) == 0) {
    return std::nullopt;
  }
  auto strings = strings_attribute(object, name, path);
  STRATA_CHECK(strings->size() == 1, kDataLoss, where(path), "attribute ", name, ": got ",
               strings->size(), " strings; expected one");
  return std::move(strings->front());
}

}  // namespace strata::keras_files::h5
