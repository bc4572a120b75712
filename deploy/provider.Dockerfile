# syntax=docker/dockerfile:1
# The local identity provider of compose.yaml: only for trying things out, never for production.
FROM node:24.21.0-bookworm-slim
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts && npm cache clean --force
COPY dev/provider dev/provider
COPY cli/bad-usage.ts cli/input.ts cli/
USER 1000
EXPOSE 9000
# This version of Node runs TypeScript directly.
ENTRYPOINT ["node", "dev/provider/tenant.ts"]
