// A protobuf message as the JSON that --json prints. Protobuf's own printer writes 64-bit integers
// as strings and bytes as base64; scripts and jq want numbers and text, so this is ours.
//
// Field names are the proto's. An optional field that is absent is left out, and so is an enum that
// is UNSPECIFIED; every other field is there, also with its default. An enum is its short word
// ("PENDING"), or its number when this program is too old to know it. Bytes are text, with invalid
// UTF-8 replaced when printed.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_JSON_H_
#define STAGELOAD_CLIENT_CTL_JSON_H_

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <string>

namespace stageload::ctl {

// Keeps the fields in the order of the proto.
using Json = nlohmann::ordered_json;

Json ToJson(const google::protobuf::Message& message);

// The short word of an enum's value: JOB_STATE_PENDING is "PENDING". Empty for UNSPECIFIED, the
// number when it is not known.
std::string EnumWord(const google::protobuf::EnumDescriptor& type, int number);
template <typename Enum>
std::string Word(Enum value) {
  return EnumWord(*google::protobuf::GetEnumDescriptor<Enum>(), static_cast<int>(value));
}

// One document, indented; or one line, for streams. Both end in a newline.
std::string Document(const Json& json);
std::string Line(const Json& json);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_JSON_H_
