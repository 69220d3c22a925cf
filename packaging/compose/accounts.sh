#!/bin/bash
# Run by the MariaDB image when its volume is empty: the proxy's own account, for leases, redelivery and purging.
# The image sources this file, and has docker_process_sql. A quote or backslash in the password is doubled.
password=${QUEUEGATE_DATABASE_PASSWORD//\\/\\\\}
password=${password//\'/\'\'}
docker_process_sql <<SQL
CREATE USER queuegate@'%' IDENTIFIED BY '$password';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, LOCK TABLES ON shop.* TO queuegate@'%';
GRANT PROCESS ON *.* TO queuegate@'%';
SQL
