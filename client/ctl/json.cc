// Walks a message by protobuf's reflection.
#include "client/ctl/json.h"

#include <google/protobuf/descriptor.h>

#include <string_view>

namespace stageload::ctl {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

Json EnumJson(const EnumDescriptor& type, int number) {
  if (type.FindValueByNumber(number) == nullptr) return Json(number);
  return Json(EnumWord(type, number));
}

Json Single(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return Json(reflection.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return Json(reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return Json(reflection.GetUInt32(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return Json(reflection.GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Json(reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Json(reflection.GetFloat(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return Json(reflection.GetBool(message, &field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumJson(*field.enum_type(), reflection.GetEnumValue(message, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      return Json(reflection.GetString(message, &field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(reflection.GetMessage(message, &field));
  }
  return Json();
}

Json Element(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return Json(reflection.GetRepeatedInt32(message, &field, index));
    case FieldDescriptor::CPPTYPE_INT64:
      return Json(reflection.GetRepeatedInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_UINT32:
      return Json(reflection.GetRepeatedUInt32(message, &field, index));
    case FieldDescriptor::CPPTYPE_UINT64:
      return Json(reflection.GetRepeatedUInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Json(reflection.GetRepeatedDouble(message, &field, index));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Json(reflection.GetRepeatedFloat(message, &field, index));
    case FieldDescriptor::CPPTYPE_BOOL:
      return Json(reflection.GetRepeatedBool(message, &field, index));
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumJson(*field.enum_type(), reflection.GetRepeatedEnumValue(message, &field, index));
    case FieldDescriptor::CPPTYPE_STRING:
      return Json(reflection.GetRepeatedString(message, &field, index));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(reflection.GetRepeatedMessage(message, &field, index));
  }
  return Json();
}

Json Repeated(const Message& message, const FieldDescriptor& field) {
  Json array = Json::array();
  const int size = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < size; ++i) array.push_back(Element(message, field, i));
  return array;
}

bool IsUnspecified(const Message& message, const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM &&
         message.GetReflection()->GetEnumValue(message, &field) == 0;
}

// nlohmann's dump throws on invalid UTF-8 unless it is told to replace it.
std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Json ToJson(const Message& message) {
  Json object = Json::object();
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string name(field.name());
    if (field.is_repeated()) {
      object[name] = Repeated(message, field);
      continue;
    }
    if (field.has_presence() && !reflection.HasField(message, &field)) continue;
    if (IsUnspecified(message, field)) continue;
    object[name] = Single(message, field);
  }
  return object;
}

std::string EnumWord(const EnumDescriptor& type, int number) {
  static constexpr std::string_view kZero = "UNSPECIFIED";
  if (number == 0) return "";
  const auto* value = type.FindValueByNumber(number);
  if (value == nullptr) return std::to_string(number);
  // buf lint's rule: every value has the enum's name in front, and 0 is PREFIX_UNSPECIFIED.
  const std::size_t prefix = std::string(type.FindValueByNumber(0)->name()).size() - kZero.size();
  return std::string(value->name()).substr(prefix);
}

std::string Document(const Json& json) { return Dump(json, 2); }
std::string Line(const Json& json) { return Dump(json, -1); }

}  // namespace stageload::ctl
