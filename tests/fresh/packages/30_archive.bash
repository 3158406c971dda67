# The relocatable archive, unpacked by a user into any folder of a minimal root.
archive=$(ls "$source"/dist/heed-*.tar.gz)
needed=$(objdump -T "$source"/build-package/portable/heed | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -1)
other=$(new_root "$release" archive)
cp "$archive" "$other/tmp"
inside --offline "$other" minsu /home/minsu bash -c 'mkdir "어떤 폴더" && tar -C "어떤 폴더" --strip-components=1 -xzf /tmp/heed-*.tar.gz'
seconds_of inside --offline "$other" minsu "/home/minsu/어떤 폴더" bin/heed quickstart --json --out /home/minsu/q >"$work/answer"
taught "$work/answer"
echo "note: heed quickstart took $seconds s; needs $needed; $(du -h "$archive" | cut -f1)"
