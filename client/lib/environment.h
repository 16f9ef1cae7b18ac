// This process's environment as a list, and as what exec wants.
//
// Threading: no thread may change the environment meanwhile.
#ifndef STAGELOAD_CLIENT_LIB_ENVIRONMENT_H_
#define STAGELOAD_CLIENT_LIB_ENVIRONMENT_H_

#include <string>
#include <vector>

namespace stageload::client {

// "NAME=value", in order.
std::vector<std::string> OwnEnvironment();

// Replaces NAME where it is, or adds it.
void SetVariable(std::vector<std::string>& environment, const std::string& name,
                 const std::string& value);

// Pointers into `texts` with a null at the end; valid as long as `texts` is unchanged.
std::vector<char*> Pointers(std::vector<std::string>& texts);

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_ENVIRONMENT_H_
