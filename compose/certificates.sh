#!/bin/sh
# Make the cluster's authority and the certificates that are not there yet: certificates.sh NODE...
# With STEP=renew they are all issued anew; STEP=rotate begins with a new authority beside the old one, STEP=finish ends with it alone.
# Each node sees only its own folder, and nobody but this service the authority's key.
set -eu
cd /certificates
step=${STEP:-}
[ -e authority/ca.pem ] || veridical certs init authority --cluster "${CLUSTER:-veridical}"
case $step in
rotate) veridical certs rotate --authority authority ;;
finish) veridical certs rotate --authority authority --finish ;;
esac
# Whom to trust goes before who is to be trusted.
for folder in "$@" client; do
    cp authority/ca.pem "$folder/ca.pem"
done
for node in "$@"; do
    if [ -n "$step" ] || [ ! -e "$node/$node.pem" ]; then
        veridical certs issue "$node" --authority authority --out "$node" --host "$node" --host localhost --host 127.0.0.1
        # The same names for every node, so that all share one configuration.
        cp "$node/$node-key.pem" "$node/node-key.pem"
        cp "$node/$node.pem" "$node/node.pem"
    fi
done
if [ -n "$step" ] || [ ! -e client/client.pem ]; then
    veridical certs issue client --client --authority authority --out client
fi
