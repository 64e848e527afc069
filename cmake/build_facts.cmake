# cmake -D OUT=FILE -D SOURCE=DIRECTORY -D LIBRARIES=TEXT -P build_facts.cmake: a header with the commit that is built.
# Written anew only when something in it changes.
set(commit "unknown (not a git checkout)")
find_program(git git)
if(git AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(commit ${found})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#pragma once\n
namespace hfshard {\n
inline constexpr const char* kBuiltCommit = \"${commit}\";
inline constexpr const char* kBuiltLibraries = \"${LIBRARIES}\";\n
}  // namespace hfshard\n" @ONLY)
