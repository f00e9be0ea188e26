// Superblock, object headers and their messages.

#include <set>

#include "keras_files/h5_file.h"

namespace strata::keras_files::h5 {
namespace {

constexpr const char* kHeader = "an object's header";

enum Message : uint64_t {
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kLink = 0x06,
  kExternal = 0x07,
  kLayout = 0x08,
  kFilters = 0x0B,
  kAttribute = 0x0C,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kAttributeInfo = 0x15,
};

[[noreturn]] void unknown(const char* what) {
  throw Error(ErrorCode::kUnimplemented,
              str_cat("got ", what,
                      "; expected what h5py writes by default; save the file again with Keras, or "
                      "with h5py and without libver='latest'"));
}

constexpr const char* kSignature = "\x89HDF\r\n\x1a\n";

/// HDF5 may begin at byte 512, 1024, 2048 and so on.
bool has_user_block(Bytes bytes) {
  for (uint64_t at = 512; at < bytes.size(); at *= 2)
    if (Cursor(bytes.subspan(at), kHeader).starts_with(kSignature)) return true;
  return false;
}

Datatype parse_datatype(Cursor cursor) {
  Datatype type;
  const uint64_t first = cursor.number(1);
  const uint64_t bits = cursor.number(3);
  type.size = cursor.number(4);
  type.number = static_cast<int>(first & 15);
  if (first >> 4 < 1 || first >> 4 > 4) damaged("a type of an unknown version");
  using Class = Datatype::Class;
  switch (type.number) {
    case 0: {
      type.kind = Class::kInteger;
      type.big_endian = (bits & 1) != 0;
      type.is_signed = (bits & 8) != 0;
      const uint64_t offset = cursor.number(2), precision = cursor.number(2);
      type.is_plain = offset == 0 && precision == 8 * type.size;
      break;
    }
    case 1: {
      type.kind = Class::kReal;
      type.big_endian = (bits & 1) != 0;
      const uint64_t offset = cursor.number(2), precision = cursor.number(2);
      const uint64_t exponent_at = cursor.number(1);
      type.exponent_bits = static_cast<int>(cursor.number(1));
      const uint64_t mantissa_at = cursor.number(1);
      type.mantissa_bits = static_cast<int>(cursor.number(1));
      const uint64_t bias = cursor.number(4);
      type.is_plain =
          offset == 0 && precision == 8 * type.size && mantissa_at == 0 &&
          exponent_at == static_cast<uint64_t>(type.mantissa_bits) && bits >> 8 == precision - 1 &&
          (bits & 0x40) == 0 && type.exponent_bits < 16 &&
          bias == (uint64_t{1} << (type.exponent_bits - 1 + (type.exponent_bits == 0))) - 1;
      break;
    }
    case 3:
    case 5:
    case 8:
      type.kind = static_cast<Class>(type.number);
      break;
    case 9:
      type.kind = Class::kVariable;
      type.is_text = (bits & 15) == 1;
      break;
    default:
      break;
  }
  return type;
}

struct Shape {
  std::vector<uint64_t> dims;
  bool is_null = false;
};

Shape parse_dataspace(Cursor cursor) {
  Shape shape;
  const uint64_t version = cursor.number(1), rank = cursor.number(1);
  cursor.take(1);
  if (version == 1) {
    cursor.take(5);
  } else if (version == 2) {
    shape.is_null = cursor.number(1) == 2;
  } else {
    damaged("a shape of an unknown version");
  }
  if (rank > 32) damaged("a shape of more than 32 dimensions");
  for (uint64_t i = 0; i < rank; ++i) shape.dims.push_back(cursor.number(8));
  return shape;
}

/// Type and shape may be kept elsewhere: bits 0 and 1 of the flags of newer versions.
Attribute parse_attribute(Bytes message) {
  Cursor cursor(message, "an attribute");
  const uint64_t version = cursor.number(1);
  if (version < 1 || version > 3) damaged("an attribute of an unknown version");
  const uint64_t flags = cursor.number(1);
  if (version > 1 && (flags & 3) != 0) unknown("an attribute with a committed type");
  const uint64_t name = cursor.number(2), type = cursor.number(2), space = cursor.number(2);
  if (version == 3) cursor.take(1);
  const auto part = [&](uint64_t size) {
    return cursor.take(version == 1 ? padded(size) : size).first(size);
  };
  Attribute attribute;
  const Bytes text = part(name);
  attribute.name = Cursor(text, "an attribute").text(text.size());
  attribute.name.erase(std::min(attribute.name.find('\0'), attribute.name.size()));
  attribute.type = parse_datatype({part(type), "an attribute's type"});
  const Shape shape = parse_dataspace({part(space), "an attribute's shape"});
  attribute.count = 1;
  for (const uint64_t dim : shape.dims) {
    if (__builtin_mul_overflow(attribute.count, dim, &attribute.count)) {
      damaged("an attribute's shape");
    }
  }
  if (shape.is_null) attribute.count = 0;
  attribute.data = cursor.rest();
  return attribute;
}

Link parse_link(Cursor cursor) {
  Link link;
  if (cursor.number(1) != 1) damaged("a link of an unknown version");
  const uint64_t flags = cursor.number(1);
  const uint64_t type = (flags & 8) != 0 ? cursor.number(1) : 0;
  if ((flags & 4) != 0) cursor.take(8);   // order of creation
  if ((flags & 16) != 0) cursor.take(1);  // character set
  link.name = cursor.text(cursor.number(uint64_t{1} << (flags & 3)));
  link.kind = type == 0 ? Link::Kind::kHard : type == 1 ? Link::Kind::kSoft : Link::Kind::kOther;
  if (type == 0) link.address = cursor.number(8);
  return link;
}

Layout parse_layout(Cursor cursor) {
  Layout layout;
  const uint64_t version = cursor.number(1);
  if (version != 3 && version != 4) unknown("a layout of another version than 3");
  const uint64_t kind = cursor.number(1);
  if (kind == 0) {
    layout.kind = Layout::Kind::kInHeader;
    layout.data = cursor.take(cursor.number(2));
    layout.size = layout.data.size();
  } else if (kind == 1) {
    layout.kind = Layout::Kind::kWhole;
    layout.address = cursor.number(8);
    layout.size = cursor.number(8);
    if (layout.address == kNowhere) layout.size = 0;
  } else if (kind == 2 && version == 3) {
    layout.kind = Layout::Kind::kChunks;
    const uint64_t rank = cursor.number(1);  // one more: the element's bytes
    layout.address = cursor.number(8);
    if (rank < 2 || rank > 33) damaged("a chunk's shape");
    for (uint64_t i = 0; i + 1 < rank; ++i) layout.chunk.push_back(cursor.number(4));
  } else if (kind == 3) {
    layout.kind = Layout::Kind::kVirtual;
  } else {
    unknown("chunks of a newer kind");
  }
  return layout;
}

std::vector<Filter> parse_filters(Cursor cursor) {
  std::vector<Filter> filters;
  const uint64_t version = cursor.number(1), count = cursor.number(1);
  if (version != 1 && version != 2) damaged("filters of an unknown version");
  if (version == 1) cursor.take(6);
  for (uint64_t i = 0; i < count; ++i) {
    Filter filter{.id = cursor.number(2)};
    const uint64_t name = version == 1 || filter.id >= 256 ? cursor.number(2) : 0;
    cursor.take(2);
    const uint64_t values = cursor.number(2);
    filter.name = cursor.text(version == 1 ? padded(name) : name);
    filter.name.erase(std::min(filter.name.find('\0'), filter.name.size()));
    cursor.take(4 * (version == 1 ? values + values % 2 : values));
    filters.push_back(std::move(filter));
  }
  return filters;
}

}  // namespace

Bytes File::from(uint64_t address, const char* what) const {
  if (address > bytes_.size()) damaged(what);
  return bytes_.subspan(address);
}

File::File(Bytes bytes, Budget& budget) : bytes_(bytes), budget_(budget) {
  Cursor cursor(bytes, "the file ends early");
  if (!cursor.starts_with(kSignature)) {
    if (has_user_block(bytes)) unknown("HDF5 behind a user block");
    damaged("no signature of HDF5");
  }
  cursor.take(8);
  const uint64_t version = cursor.number(1);
  if (version > 3) unknown("HDF5 of a newer version");
  cursor.take(version < 2 ? 4 : 0);
  const uint64_t offsets = cursor.number(1), lengths = cursor.number(1);
  if (offsets != 8 || lengths != 8) unknown("addresses of other than 8 bytes");
  cursor.take(version == 0 ? 9 : version == 1 ? 13 : 1);
  if (cursor.number(8) != 0) unknown("HDF5 behind a user block");
  cursor.take(8);  // free space, or the superblock's extension
  const uint64_t end = cursor.number(8);
  if (end > bytes.size()) damaged("the file is cut short");
  if (version < 2) cursor.take(16);  // driver information, the root's name
  root_ = cursor.number(8);
}

ObjectHeader File::object(uint64_t address) const {
  constexpr uint64_t kChecksum = 4;
  Cursor start(from(address, kHeader), kHeader);
  const bool is_new = start.starts_with("OHDR");
  uint64_t message_header = 8;
  std::vector<Bytes> blocks;
  if (is_new) {
    start.take(4);
    if (start.number(1) != 2) damaged(kHeader);
    const uint64_t flags = start.number(1);
    if ((flags & 0x20) != 0) start.take(16);  // times
    if ((flags & 0x10) != 0) start.take(4);   // limits for attributes
    message_header = (flags & 0x04) != 0 ? 6 : 4;
    blocks.push_back(start.take(start.number(uint64_t{1} << (flags & 3))));
  } else {
    if (start.number(1) != 1) damaged(kHeader);
    start.take(7);
    const uint64_t size = start.number(4);
    start.take(4);
    blocks.push_back(start.take(size));
  }

  ObjectHeader object;
  bool has_type = false, has_layout = false;
  std::set<uint64_t> seen;
  for (size_t i = 0; i < blocks.size(); ++i) {
    Cursor block(blocks[i], kHeader);
    while (block.left() >= message_header) {
      budget_.visit();
      const uint64_t type = block.number(is_new ? 1 : 2);
      const uint64_t size = block.number(2);
      const uint64_t flags = block.number(1);
      block.take(message_header - (is_new ? 4 : 5));
      Cursor data(block.take(size), kHeader);
      const bool shared = (flags & 2) != 0;
      if (shared && (type == kDatatype || type == kDataspace || type == kAttribute)) {
        unknown("a committed type");
      }
      switch (type) {
        case kContinuation: {
          const uint64_t begin = data.number(8), length = data.number(8);
          if (!seen.insert(begin).second) damaged("an object's header leads back to itself");
          Bytes next = at(begin, length, kHeader);
          if (is_new) {
            if (length < 4 + kChecksum) damaged(kHeader);
            Cursor(next, kHeader).signature("OCHK");
            next = next.subspan(4, length - 4 - kChecksum);
          }
          blocks.push_back(next);
          break;
        }
        case kSymbolTable: {
          object.is_group = true;
          const uint64_t tree = data.number(8), heap = data.number(8);
          read_symbols(tree, heap, object.links);
          break;
        }
        case kLinkInfo: {
          object.is_group = true;
          data.take(1);
          if ((data.number(1) & 1) != 0) data.take(8);
          if (data.number(8) != kNowhere) unknown("a group whose links are outside of its header");
          break;
        }
        case kLink:
          object.links.push_back(parse_link(data));
          budget_.copy(object.links.back().name.size());
          break;
        case kDataspace: {
          Shape shape = parse_dataspace(data);
          object.shape = std::move(shape.dims);
          object.has_shape = !shape.is_null;
          break;
        }
        case kDatatype:
          object.type = parse_datatype(data);
          has_type = true;
          break;
        case kExternal:
          object.is_external = true;
          break;
        case kLayout:
          object.layout = parse_layout(data);
          has_layout = true;
          break;
        case kFilters:
          object.filters = parse_filters(data);
          budget_.visit(object.filters.size());
          break;
        case kAttribute:
          object.attributes.push_back(parse_attribute(data.rest()));
          budget_.copy(object.attributes.back().name.size());
          break;
        case kAttributeInfo: {
          data.take(1);
          if ((data.number(1) & 1) != 0) data.take(2);
          if (data.number(8) != kNowhere) {
            unknown("an object whose attributes are outside of its header");
          }
          break;
        }
        default:
          break;
      }
    }
  }
  object.is_dataset = !object.is_group && has_type && has_layout;
  return object;
}

}  // namespace strata::keras_files::h5
