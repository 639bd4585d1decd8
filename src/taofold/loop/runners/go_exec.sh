# Runs a test binary of Go (`go test -exec`), and says whether its tests came to their end: only
# then `testing` writes its log. Code of the product that prints results and exits before does not.
binary=$1
shift
log=$(mktemp)
"$binary" "-test.testlogfile=$log" "$@"
code=$?
[ -s "$log" ] || printf '\ntaofold: these tests did not come to their end\n'
rm -f "$log"
exit $code
