// What Abseil asks macOS for the name of the local time zone with, for the cross build only: zig
// brings no frameworks. CoreFoundation.tbd beside this folder is its library.
#pragma once

#include <cstdint>

using CFIndex = long;
using CFStringEncoding = std::uint32_t;
using CFStringRef = const struct CFStringBody*;
using CFTimeZoneRef = const struct CFTimeZoneBody*;

inline constexpr CFStringEncoding kCFStringEncodingUTF8 = 0x08000100;

extern "C" {
void CFRelease(const void* object);
unsigned char CFStringGetCString(CFStringRef string, char* buffer, CFIndex size,
                                 CFStringEncoding encoding);
CFIndex CFStringGetLength(CFStringRef string);
CFIndex CFStringGetMaximumSizeForEncoding(CFIndex length, CFStringEncoding encoding);
CFTimeZoneRef CFTimeZoneCopyDefault();
CFStringRef CFTimeZoneGetName(CFTimeZoneRef zone);
}
