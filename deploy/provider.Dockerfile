# syntax=docker/dockerfile:1
# The local identity provider of compose.yaml: for trying out, never for production.
FROM node:24.21.0-bookworm-slim
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts && npm cache clean --force
COPY dev/provider dev/provider
COPY cli/read-at-most.ts cli/
USER node
EXPOSE 9000
# This Node runs TypeScript as it is.
ENTRYPOINT ["node", "dev/provider/tenant.ts"]
