# Runs on what CPack installed for one package, before it is packed: what Debian's policy asks of a
# package's documents.
string(REGEX REPLACE ".*/" "" component "${CPACK_TEMPORARY_INSTALL_DIRECTORY}")
file(GLOB roots LIST_DIRECTORIES ON ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
foreach(root IN LISTS roots CPACK_TEMPORARY_INSTALL_DIRECTORY)
  get_filename_component(component ${root} NAME)
  string(TOUPPER "${component}" upper)
  if(NOT CPACK_DEBIAN_${upper}_PACKAGE_NAME OR NOT IS_DIRECTORY ${root}/usr)
    continue()
  endif()
  set(folder ${root}/usr/share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  file(MAKE_DIRECTORY ${folder})
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  file(WRITE ${folder}/changelog.Debian "heed (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Built from its source by ./dev package.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  file(WRITE ${folder}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: heed

Files: *
Copyright: 2026 The heed developers
License: Apache-2.0
 On Debian systems, the full text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
")
  file(GLOB_RECURSE pages ${root}/usr/share/man/*.1)
  execute_process(COMMAND gzip -9nf ${folder}/changelog.Debian ${pages} COMMAND_ERROR_IS_FATAL ANY)
  file(CHMOD_RECURSE ${root}/usr/share FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
    DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
